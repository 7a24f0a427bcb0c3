// Signed bias: what hides inside the noise because it always points the same way.
//
//   offset  mean(e)              a constant, a rounding that always goes up
//   gain    <e, x> / <x, x>      truncation, a constant factor that is a little wrong: symmetric
//                                around zero, so the offset does not see them
//
// Both are compared with the base's, since a legal kernel on truncating tensor cores is biased and
// its contract says so. Candidate and base round the same operands, so most of their errors are the
// same errors; what may differ is judged from the difference d = candidate - base itself:
//
//   |gain - gain of the base|  <=  q SE(d) sqrt(crowding) + (f - 1) |gain of the base| + noise / 64
//
//   q SE(d)   standard error of <d, x> / <x, x>, the largest over ways of clustering, with
//   Student's
//             quantile at kTail (moments.hpp). Independent roundings make it sqrt 2 times one
//             error's
//   crowding  how much more the gains of the base and its variants scatter than that formula says
//             (noise.cpp)
//   f         the ratio factor: a base that knows the kernel's noise to 15 % knows its bias no
//   better noise/64  the RMS error of the base. Through L kernels in a row a bias adds up as L and
//   noise
//             as sqrt L, so one this small needs 64^2 = 4096 of them to come level with the noise;
//             without it, every difference would be significant in a tensor that is large enough
//             At least a step of f32: a factor that a whole region shares (its decay) is rounded
//             once
//
// The gain is also looked at region by region (1024 elements and more), where one head of many may
// be truncated; q is then for all regions together, and SE(d) that of independent differences in
// the region, with the region's own crowding: in one region there are too few clusters.
//
// A candidate closer to the truth than the base may also have any bias between none and the base's:
// its products are not truncated, say.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"
#include "harness/numeric/tails.hpp"

namespace parity {
namespace {

constexpr double kNegligible = 1.0 / 64;  // of the base's noise

struct Bias {
  double own = 0, base = 0;
  double random = 0;  // q SE(d) sqrt(crowding)
  double noise = 0;   // RMS error of the base, in the units of the bias
  double unit = 0;    // one step of the arithmetic at the truth's RMS

  double limit(double f) const {
    return random + (f - 1) * std::abs(base) + std::max(kNegligible * noise, unit);
  }
};

// How far `own` is from the base's, or from anything between that and zero.
double excess(const Bias& b, bool closer) {
  if (!closer) return std::abs(b.own - b.base);
  return std::max({0.0, b.own - std::max(0.0, b.base), std::min(0.0, b.base) - b.own});
}

ViewResult view_of(const Compared& t, const Bias& b, bool closer, std::string detail) {
  return {.view = std::string(name(View::Bias)),
          .value = excess(b, closer),
          .limit = b.limit(ratio_factor(t.c.fidelity)),
          .detail = std::move(detail)};
}

double step_of(Dtype out) {
  return 2 * std::min(format(out).unit_roundoff, format(Dtype::F32).unit_roundoff);
}

// The region whose gain is furthest beyond its limit.
void add_regions(const Compared& t, TensorRecord& r) {
  constexpr double kSmallest = 1024;
  const Noise& noise = *t.noise;
  double regions = 0;
  for (const Slicing& s : t.cuts)
    if (static_cast<double>(s.elements) >= kSmallest) regions += static_cast<double>(s.count);
  if (regions == 0 || !(noise.base.e2 > 0)) return;
  const double quantile = normal_upper(kTail / regions);
  double worst = -1;
  ViewResult view;
  for (std::size_t k = 0; k < t.cuts.size(); ++k) {
    const Slicing& s = t.cuts[k];
    if (static_cast<double>(s.elements) < kSmallest) continue;
    const SliceNoise& slice = noise.slices[k];
    const std::vector<double> size = population(s, t.grain);
    const std::vector<double> x2 = gather(s, t.truth_moments.row_x2, t.truth_moments.column_x2);
    const std::vector<double> ex = gather(s, t.moments.row_ex, t.moments.column_ex);
    const std::vector<double> e2 = gather(s, t.moments.row_e2, t.moments.column_e2);
    const std::vector<double> b2 = gather(s, noise.base.row_e2, noise.base.column_e2);
    const std::vector<double> d2x2 = gather(s, t.from_base.row_e2x2, t.from_base.column_e2x2);
    for (std::size_t i = 0; i < size.size(); ++i) {
      if (size[i] < kSmallest || !(x2[i] > 0)) continue;
      const Bias b{.own = ex[i] / x2[i],
                   .base = slice.gain[i],
                   .random = quantile * std::sqrt(d2x2[i] * slice.gain_crowding[i]) / x2[i],
                   .noise = std::sqrt(b2[i] / x2[i]),
                   .unit = step_of(t.spec.dtype)};
      const bool closer = e2[i] <= b2[i];
      const double used = bound_used(excess(b, closer), b.limit(ratio_factor(t.c.fidelity)));
      if (used <= worst) continue;
      worst = used;
      view = view_of(t, b, closer,
                     fmt::format("gain {:.3g} in {}, of the base {:.3g}", b.own,
                                 describe(s, t.spec.dims, static_cast<std::int64_t>(i)), b.base));
    }
  }
  if (worst >= 0) r.views.push_back(std::move(view));
}

}  // namespace

void compare_bias(const Compared& t, TensorRecord& r) {
  const Noise& noise = *t.noise;
  const RunSummary& base = noise.runs[0];
  r.gain_base = base.gain;
  if (t.n() < kSmallestSlice) return;
  const bool closer = t.moments.e2 <= noise.base.e2;
  const Uncertainty apart = uncertainty(t.from_base, t.truth_moments, t.grain, t.cuts, kTail);
  const Bias gain{.own = r.gain,
                  .base = base.gain,
                  .random = apart.gain * std::sqrt(noise.gain_crowding),
                  .noise = r.truth_rms > 0 ? base.rmse / r.truth_rms : 0,
                  .unit = step_of(t.spec.dtype)};
  const Bias offset{.own = t.moments.e / t.n(),
                    .base = base.mean,
                    .random = apart.mean * std::sqrt(noise.mean_crowding),
                    .noise = base.rmse,
                    .unit = step_of(t.spec.dtype) * r.truth_rms};
  const double error = std::hypot(apart.gain_error, noise.pooled.gain_independent);
  r.gain_z = r.gain == r.gain_base ? 0 : (r.gain - r.gain_base) / error;
  r.views.push_back(view_of(t, gain, closer,
                            fmt::format("gain {:.3g}, of the base {:.3g}", gain.own, gain.base)));
  r.views.push_back(
      view_of(t, offset, closer,
              fmt::format("offset {:.3g}, of the base {:.3g}", offset.own, offset.base)));
  add_regions(t, r);
}

}  // namespace parity
