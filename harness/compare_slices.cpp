// Error against the base's: over the tensor (ratio), against the noise floor, and region by region.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"
#include "harness/numeric/tails.hpp"
#include "harness/numeric/ulp.hpp"

namespace parity {
namespace {

// The noise floor of rel L2 (of the RMS error where the truth is zero): a further legal run lies
// below it with probability 0.95, the logarithms of K + 1 runs being normal (mean + t s sqrt(1 +
// 1/n), the prediction limit of a sample of n). At least one ulp of the output at the tensor's RMS,
// so that a base that happens to be exact does not demand exactness.
// `spread` is what launches of the candidate differ by, independent of the base's noise.
double noise_floor(const Noise& noise, Dtype dtype, double rms, double spread) {
  const double unit = rms > 0 ? rms : 1;
  double sum = 0, sum2 = 0, most = 0;
  bool positive = true;
  for (const RunSummary& run : noise.runs) {
    most = std::max(most, run.rmse);
    positive = positive && run.rmse > 0;
    const double log = std::log(run.rmse);
    sum += log, sum2 += log * log;
  }
  const auto n = static_cast<double>(noise.runs.size());
  double floor = most;
  if (positive && n >= 3) {
    const double s = std::sqrt(std::max(0.0, sum2 - sum * sum / n) / (n - 1));
    floor = std::exp(sum / n + student_upper(0.05, n - 1) * s * std::sqrt(1 + 1 / n));
  }
  return std::max(std::hypot(floor, spread), ulp(dtype, rms)) / unit;
}

// The ratio of two mean squares of correlated errors scatters by sqrt(1 - rho^2) of what
// independent ones do (Pitman 1939), so a candidate that shares the base's roundings gets that much
// less of the widening; never less than the rule for small slices, 1 + 3 / sqrt(n). All three
// arguments are sums of squares.
double widened(double independent, double n, double error, double base, double apart) {
  const double least = 1 + 3 / std::sqrt(n);
  if (!(error > 0) || !(base > 0)) return std::max(least, independent);
  const double rho = std::clamp((error + base - apart) / (2 * std::sqrt(error * base)), 0.0, 1.0);
  return std::max(least, 1 + (independent - 1) * std::sqrt(1 - rho * rho));
}

}  // namespace

void compare_ratio(const Compared& t, TensorRecord& r) {
  const Noise& noise = *t.noise;
  const double rms = r.truth_rms, rmse = std::sqrt(t.moments.e2 / t.n());
  r.rel_l2_base = rms > 0                  ? noise.runs[0].rmse / rms
                  : noise.runs[0].rmse > 0 ? std::numeric_limits<double>::infinity()
                                           : 0;
  r.floor = noise_floor(noise, t.spec.dtype, rms, t.c.spread);
  r.repeat_spread = t.c.spread / (rms > 0 ? rms : 1);
  if (noise.runs.size() < kFewestVariants + 1) {
    if (r.unproven.empty())
      r.unproven =
          fmt::format("K too small: {} variants of the base give no noise floor, {} are needed",
                      noise.runs.size() - 1, kFewestVariants);
  } else {
    r.views.push_back({.view = std::string(name(View::Floor)),
                       .value = rms > 0 ? rmse / rms : rmse,
                       .limit = t.c.bound.f_floor * r.floor,
                       .detail = fmt::format("noise floor {:.3g} of {} runs, times {}", r.floor,
                                             noise.runs.size(), t.c.bound.f_floor)});
  }
  if (noise.widening == 0) return;  // too few elements
  const double factor = ratio_factor(t.c.fidelity) *
                        widened(noise.widening, t.n(), t.moments.e2, noise.base.e2, t.from_base.e2);
  // Where the truth is zero all of it is cancellation, which may leave the base itself nothing: any
  // run's then.
  double base = noise.runs[0].rmse;
  if (rms == 0)
    for (const RunSummary& run : noise.runs) base = std::max(base, run.rmse);
  const double last = format(t.spec.dtype).unit_roundoff * rms;
  r.views.push_back({.view = std::string(name(View::Ratio)),
                     .value = rmse,
                     .limit = factor * base + last,
                     .detail = fmt::format("rms error {:.3g}, of the base {:.3g}; factor {:.3g}",
                                           rmse, base, factor)});
}

void compare_slices(const Compared& t, TensorRecord& r) {
  struct Worst {
    double quotient = -1, value = 0, limit = 0, base = 0, size = 0;
    const Slicing* cut = nullptr;
    std::int64_t region = 0;
  } worst;
  const double u = format(t.spec.dtype).unit_roundoff;
  for (std::size_t k = 0; k < t.cuts.size(); ++k) {
    const Slicing& s = t.cuts[k];
    const SliceNoise& noise = t.noise->slices[k];
    const std::vector<double> size = population(s, t.grain);
    const std::vector<double> e2 = gather(s, t.moments.row_e2, t.moments.column_e2);
    const std::vector<double> x2 = gather(s, t.truth_moments.row_x2, t.truth_moments.column_x2);
    const std::vector<double> b2 = gather(s, t.noise->base.row_e2, t.noise->base.column_e2);
    const std::vector<double> d2 = gather(s, t.from_base.row_e2, t.from_base.column_e2);
    for (std::size_t i = 0; i < e2.size(); ++i) {
      if (noise.widening[i] == 0) continue;
      const double value = std::sqrt(e2[i] / size[i]), base = std::sqrt(noise.mean_square[i]);
      const double limit =
          ratio_factor(t.c.fidelity) * noise.widening[i] * base + u * std::sqrt(x2[i] / size[i]);
      const double quotient = bound_used(value, limit);
      if (quotient > worst.quotient)
        worst = {quotient, value, limit, base, size[i], &s, static_cast<std::int64_t>(i)};
    }
  }
  if (!worst.cut) return;  // no region is large enough
  r.views.push_back(
      {.view = std::string(name(View::Slice)),
       .value = worst.value,
       .limit = worst.limit,
       .detail = fmt::format("{}: rms error {:.3g} over {} elements, of the base {:.3g}",
                             describe(*worst.cut, t.spec.dims, worst.region), worst.value,
                             worst.size, worst.base)});
}

}  // namespace parity
