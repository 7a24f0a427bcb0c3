// Statistics of the residuals of one run in one column, step by step, in memory that does not grow.
//
// A residual is (x - median of the other runs) / their robust sigma at that step, of logarithms
// where all values are positive. Five statistics, each the logarithm of a size, so that a heavy
// tail of one does not drown the others:
//   step    the largest |residual|, over the largest that any other run had up to that step: the
//           max statistic against a band that learns how wild the ensemble becomes
//   sum     the largest |sum of residuals from the start| / sqrt(steps): a lasting shift
//   slope   of the residuals over the last half, in sigma: a drift that grows
//   signs   the longest run of one sign
//   level   mean of log |residual| over the first 8, 16, 32, ... steps or the last half: a run that
//           is noisier, or off in either direction, for a while rather than at one step
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace parity::drift {

enum class Statistic { Step, Sum, Slope, Signs, Level };
inline constexpr std::size_t kStatistics = 5;
std::string_view name(Statistic);
using Statistics = std::array<double, kStatistics>;

class Running {
 public:
  // `at` counts the steps from 0; `envelope` is the largest |residual| of any other run so far.
  // Returns how far this residual is outside it, as a factor.
  double add(double residual, double envelope, std::int64_t at, std::int64_t steps);
  Statistics statistics(std::int64_t steps) const;
  double largest() const { return largest_; }  // |residual|

 private:
  double largest_ = 0, ratio_ = 0, sum_ = 0, peak_ = 0, moment_ = 0, level_ = 0, late_ = 0,
         highest_ = -std::numeric_limits<double>::infinity();
  std::int64_t run_ = 0, longest_ = 0;
  int sign_ = 0;
};

}  // namespace parity::drift
