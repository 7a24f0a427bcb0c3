// Finiteness, the plain metrics, and equality.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"
#include "harness/numeric/pair_stats.hpp"

namespace parity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// NaN, +inf, -inf or a number.
int kind(double x) { return std::isnan(x) ? 3 : std::isinf(x) ? (x > 0 ? 1 : 2) : 0; }

std::string_view kind_name(double x) {
  constexpr std::string_view kNames[] = {"a number", "+inf", "-inf", "NaN"};
  return kNames[kind(x)];
}

}  // namespace

bool same_value(double a, double b, bool strict_sign) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && (!strict_sign || std::signbit(a) == std::signbit(b));
}

// Where the truth is a number beyond the format's range, its rounding to the storage format (an
// infinity) is as right as a saturated value, which the bound then judges.
void compare_finiteness(Compared& t, TensorRecord& r) {
  t.rounded.resize(t.truth.size());
  std::vector<std::byte> stored(bytes_for(t.spec.dtype, r.elements));
  narrow(t.spec.dtype, t.truth, 0, stored.data());
  widen(t.spec.dtype, stored.data(), 0, t.rounded);
  if (t.c.observed.spec.dtype == t.spec.dtype) {
    const PairStats pairs =
        pair_stats(t.spec.dtype, stored.data(), t.c.observed.bytes.data(), r.elements, 1);
    r.differing = pairs.differing;
    r.max_ulp = static_cast<double>(pairs.max_ulp);
    r.mean_ulp =
        pairs.finite_pairs > 0 ? pairs.sum_ulp / static_cast<double>(pairs.finite_pairs) : 0;
    if (t.c.details)
      r.ulp_histogram.assign(pairs.log2_ulp_histogram.begin(), pairs.log2_ulp_histogram.end());
  } else {
    for (std::size_t i = 0; i < t.truth.size(); ++i)
      r.differing += same_value(t.rounded[i], t.observed[i], true) ? 0 : 1;
  }
  for (std::size_t i = 0; i < t.truth.size(); ++i) {
    const double want = t.truth[i], got = t.observed[i];
    if (std::isfinite(want) && std::isfinite(got)) continue;
    const bool right = std::isfinite(got)    ? false
                       : std::isfinite(want) ? kind(got) == kind(t.rounded[i])
                       : t.c.bound.nonfinite == NonFinite::AnyWhereTruthIsNonFinite
                           ? true
                           : kind(got) == kind(want);
    if (!right) t.nonfinite.push_back(i);
    t.truth[i] = t.error[i] = 0;
  }
  ViewResult view{.view = std::string(name(View::Finiteness)),
                  .value = static_cast<double>(t.nonfinite.size()),
                  .limit = 0};
  if (!t.nonfinite.empty()) {
    const std::size_t first = t.nonfinite.front();
    view.detail = fmt::format("{} elements, first {}: {} where {} belongs", t.nonfinite.size(),
                              letters(t.spec.dims, static_cast<std::int64_t>(first)),
                              kind_name(t.observed[first]), kind_name(t.c.expected.value[first]));
    r.worst = point_at(t, first);
  }
  r.views.push_back(std::move(view));
}

void compare_metrics(const Compared& t, TensorRecord& r) {
  std::int64_t zeros = 0;
  for (std::size_t i = 0; i < t.truth.size(); ++i) {
    const double e = std::abs(t.error[i]), x = std::abs(t.truth[i]);
    r.max_abs = std::max(r.max_abs, e);
    if (x > 0) r.max_rel = std::max(r.max_rel, e / x);
    zeros += t.observed[i] == 0 ? 1 : 0;
  }
  const double x2 = truth_moments(t.truth, t.grain).x2, e2 = t.moments.e2;
  const double o2 = std::max(0.0, x2 + 2 * t.moments.ex + e2);
  r.zero_fraction = static_cast<double>(zeros) / t.n();
  r.truth_rms = std::sqrt(x2 / t.n());
  // Both zero is equal; zero against something is as far as can be. 0/0 is never a metric.
  r.rel_l2 = x2 > 0 ? std::sqrt(e2 / x2) : e2 > 0 ? kInfinity : 0;
  r.norm_ratio = x2 > 0 ? std::sqrt(o2 / x2) : e2 > 0 ? kInfinity : 1;
  r.cosine = x2 > 0 && o2 > 0 ? (x2 + t.moments.ex) / std::sqrt(x2 * o2) : e2 > 0 ? 0 : 1;
  r.gain = x2 > 0 ? t.moments.ex / x2 : 0;
  const double mean = t.moments.e / t.n();
  const double variance = std::max(0.0, e2 / t.n() - mean * mean);
  // Where e is 0 throughout the offset is 0; a constant error has no scatter and is infinitely
  // sure.
  r.offset_z = mean == 0 ? 0
                         : std::copysign(variance > 0 ? std::abs(mean) / std::sqrt(variance / t.n())
                                                      : kInfinity,
                                         mean);
}

void compare_exact(const Compared& t, TensorRecord& r) {
  std::int64_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < t.rounded.size(); ++i)
    if (!same_value(t.rounded[i], t.observed[i], t.c.bound.strict_signed_zero) && wrong++ == 0)
      first = i;
  r.mismatches = wrong;
  r.bound_used = wrong > 0 ? kInfinity : 0;
  ViewResult view{
      .view = std::string(name(View::Exact)), .value = static_cast<double>(wrong), .limit = 0};
  if (wrong > 0) {
    r.worst = point_at(t, first);
    view.detail = fmt::format("{} of {} elements differ, first {}: {} where {} belongs", wrong,
                              r.elements, letters(t.spec.dims, static_cast<std::int64_t>(first)),
                              t.observed[first], t.rounded[first]);
  }
  r.views.push_back(std::move(view));
}

}  // namespace parity
