// The bound, element by element: e_i <= limit * allowed_i.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "harness/compare_parts.hpp"

namespace parity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Largest {
  double used = 0;
  std::size_t at = 0;
  std::int64_t over = 0;   // elements above 1
  std::int64_t void_ = 0;  // elements whose bound is not finite
  double strength = 0;     // max |x| / allowed: what a zero in its place would use
};

Largest largest(const Compared& t, std::span<const double> error) {
  Largest result;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double x = t.truth[i], allowed = t.allowed(x, i);
    if (!(allowed < kInfinity)) {
      ++result.void_;
      continue;
    }
    const double used = error[i] == 0 ? 0 : std::abs(error[i]) / allowed;
    if (used > 1) ++result.over;
    if (used > result.used) result.used = used, result.at = i;
    if (x != 0 && std::abs(x) > result.strength * allowed) result.strength = std::abs(x) / allowed;
  }
  return result;
}

}  // namespace

double limit_of_bound(const Bound& bound, Fidelity fidelity, double base_bound_used) {
  return bound.kind == BoundKind::Proved ? 1
                                         : ratio_factor(fidelity) * std::max(1.0, base_bound_used);
}

void compare_bound(Compared& t, TensorRecord& r) {
  const bool proved = t.c.bound.kind == BoundKind::Proved;
  if (!t.base.empty()) {
    std::vector<double> error(t.base.size());
    for (std::size_t i = 0; i < error.size(); ++i) {
      const double e = t.base[i] - t.c.expected.value[i];
      error[i] = std::isfinite(e) ? e : 0;
    }
    r.base_bound_used = largest(t, error).used;
  }
  t.limit = limit_of_bound(t.c.bound, t.c.fidelity, r.base_bound_used);
  const Largest worst = largest(t, t.error);
  r.bound_used = worst.used;
  r.mismatches = worst.over;
  r.bound_that_would_pass = worst.used / t.limit;
  r.detectable = worst.strength > 0 ? t.limit / worst.strength : kInfinity;
  if (worst.used > 0 && t.nonfinite.empty()) r.worst = point_at(t, worst.at);
  if (worst.void_ > 0) {
    r.unproven = fmt::format("the bound is void at {} elements (n u >= 1, or no finite companion)",
                             worst.void_);
    return;
  }
  if (proved && r.base_bound_used > 1) {
    r.unproven =
        fmt::format("bound refuted by the base, which uses {:.3g} of it", r.base_bound_used);
    return;
  }
  if (worst.strength > 0 && worst.strength <= t.limit)
    r.unproven = "the bound is larger than the output: zeros would be within it";
  ViewResult view{.view = std::string(name(View::Bound)), .value = worst.used, .limit = t.limit};
  if (worst.used > 0)
    view.detail =
        fmt::format("{}: error {:.3g}, allowed {:.3g}",
                    letters(t.spec.dims, static_cast<std::int64_t>(worst.at)),
                    std::abs(t.error[worst.at]), t.allowed(t.truth[worst.at], worst.at) * t.limit);
  r.views.push_back(std::move(view));
}

}  // namespace parity
