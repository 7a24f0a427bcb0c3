// Centre and spread of every set that remains when one member is left out, all of them in one sort:
// what makes "a run against the others" the same computation for the candidate and for every
// reference, so that their ranks can be compared.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace parity::drift {

struct Spread {
  double centre = 0;  // median of the others
  double scale = 0;   // 1.4826 times the median of their distances from it: sigma of a normal law
};

// Keeps its buffers from call to call. Values must not be NaN; two at least, else the scale is 0.
class LeaveOneOut {
 public:
  // Valid until the next call.
  std::span<const Spread> of(std::span<const double> values);
  // Positions of the values in ascending order, of the last call.
  std::span<const std::size_t> order() const { return order_; }

 private:
  void distances(double centre);  // of all values, ascending
  double without(double distance) const;

  std::vector<std::size_t> order_ = {};
  std::vector<double> sorted_ = {}, distances_ = {};
  std::vector<Spread> spreads_ = {};
};

}  // namespace parity::drift
