// How two runs part: the time in which their difference grows by e, where it stops growing, and the
// mean that is left, with an interval that respects the correlation of neighbouring steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace parity::drift {

// `differences` of logarithms, one a step of the log.
struct Growth {
  std::optional<double> e_folding = {};  // steps of the log; none: it did not grow
  std::size_t from = 0, to = 0;          // indices between which it grew
  double level = 0;                      // median |difference| of the last quarter
  bool saturated = false;                // it no longer grows there
  std::optional<double> horizon = {};    // index at which it is as large as it gets, or (still
                                         // growing) will have grown to 1 %, extrapolated
};
Growth growth_of(std::span<const double> differences);

// Moving-block bootstrap (Kuensch, "The jackknife and the bootstrap for general stationary
// observations", Ann. Statist. 17, 1989): means of blocks drawn with replacement. Blocks are as
// long as two correlation times, and n^(1/3) at least.
struct Interval {
  double mean = 0, low = 0, high = 0;  // 1 - alpha of the resampled means
  double p = 1;                        // of a mean as far from zero, where the true mean is zero
  std::int64_t block = 1;
};
Interval block_bootstrap(std::span<const double> values, double alpha);

// The same for a trend: values times their centred position, so that the mean is a slope over the
// whole stretch.
Interval block_bootstrap_trend(std::span<const double> values, double alpha);

}  // namespace parity::drift
