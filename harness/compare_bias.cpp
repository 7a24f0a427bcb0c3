// Signed bias: what hides inside the noise because it always points the same way.
//
//   offset  mean(e)              a constant, a rounding that always goes up
//   gain    <e, x> / <x, x>      truncation, a constant factor that is a little wrong: symmetric
//   around
//                                zero, so the offset does not see them
//
// Both are compared with the base's, since a legal kernel on truncating tensor cores is biased and
// its contract says so. A candidate may differ from the base by what two independent draws differ
// by (sqrt 2 times the standard error of one, with its quantile) and by as much as the variants do.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"

namespace parity {

void compare_bias(const Compared& t, TensorRecord& r) {
  const Noise& noise = *t.noise;
  r.gain_base = noise.runs[0].gain;
  if (t.n() < kSmallestSlice) return;
  const Uncertainty own = uncertainty(t.moments, t.truth_moments, t.grain, t.cuts, kTail);
  const double two = std::sqrt(2.0);
  double gain_spread = 0, mean_spread = 0;
  for (const RunSummary& run : noise.runs) {
    gain_spread = std::max(gain_spread, std::abs(run.gain - noise.runs[0].gain));
    mean_spread = std::max(mean_spread, std::abs(run.mean - noise.runs[0].mean));
  }
  const double mean = t.moments.e / t.n();
  const double gain_error = two * std::max(own.gain_error, noise.pooled.gain_error);
  r.gain_z = r.gain == r.gain_base ? 0 : (r.gain - r.gain_base) / gain_error;
  r.views.push_back(
      {.view = std::string(name(View::Bias)),
       .value = std::abs(r.gain - r.gain_base),
       .limit = two * std::max(own.gain, noise.pooled.gain) + gain_spread,
       .detail = fmt::format("gain {:.3g}, of the base {:.3g}", r.gain, r.gain_base)});
  r.views.push_back(
      {.view = std::string(name(View::Bias)),
       .value = std::abs(mean - noise.runs[0].mean),
       .limit = two * std::max(own.mean, noise.pooled.mean) + mean_spread,
       .detail = fmt::format("offset {:.3g}, of the base {:.3g}", mean, noise.runs[0].mean)});
}

}  // namespace parity
