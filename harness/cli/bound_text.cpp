#include "harness/cli/bound_text.hpp"

#include <fmt/format.h>

#include "harness/dtype.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

using reports::number;

std::string describe(const Growth& growth, Dtype accumulate) {
  const double u = format(accumulate).unit_roundoff;
  const std::string g =
      fmt::format("g = {} in {}", number(growth_factor(growth, u)), name(accumulate));
  switch (growth.kind) {
    case Growth::Kind::None:
      return "";
    case Growth::Kind::WorstCase:
      return fmt::format("worst case n u / (1 - n u), n = {}; {}", growth.n, g);
    case Growth::Kind::Blocked:
      return fmt::format("blocked sums, n = {}, block {}; {}", growth.n, growth.block, g);
    case Growth::Kind::Pairwise:
      return fmt::format("pairwise sums, n = {}; {}", growth.n, g);
    case Growth::Kind::Probabilistic:
      return fmt::format("probabilistic, lambda sqrt(n) u, n = {}, lambda = {}; {}", growth.n,
                         number(growth.lambda), g);
  }
  return "";
}

}  // namespace

std::vector<BoundTermText> terms_of(const Bound& bound, Dtype output) {
  const Format& out = format(output);
  if (bound.kind == BoundKind::Exact) return {{0, "", "exact: every bit"}};
  std::vector<BoundTermText> terms;
  terms.push_back({bound.rho * out.unit_roundoff, "|x*|",
                   fmt::format("final rounding to {}, {}", name(output),
                               bound.rho > 1 ? "truncated or stochastic" : "to nearest")});
  if (bound.scale_from == ScaleFrom::Spread) {
    terms.push_back(
        {bound.c_sigma, "sigma", "RMS deviation of the base's variants, pooled over the row"});
  } else {
    const double strict =
        1 +
        bound.rho * out.unit_roundoff;  // an error made before the last rounding is scaled by it
    if (bound.growth.kind != Growth::Kind::None && bound.c_acc != 0)
      terms.push_back({strict * bound.c_acc *
                           growth_factor(bound.growth, format(bound.accumulate).unit_roundoff),
                       "m",
                       fmt::format("accumulation, c = {}: {}", number(bound.c_acc),
                                   describe(bound.growth, bound.accumulate))});
    for (const RoundingTerm& rounding : bound.roundings)
      terms.push_back({strict * rounding.c * format(rounding.to).unit_roundoff, "m",
                       fmt::format("{} rounded to {}, c = {}", rounding.what, name(rounding.to),
                                   number(rounding.c))});
  }
  if (bound.subnormals != 0)
    terms.push_back({bound.subnormals * out.min_subnormal, "",
                     fmt::format("floor: {} of the smallest subnormals of {}",
                                 number(bound.subnormals), name(output))});
  return terms;
}

std::string limit_of(const Bound& bound) {
  switch (bound.kind) {
    case BoundKind::Exact:
      return "equality";
    case BoundKind::Proved:
      return "error / allowed <= 1 at every element";
    case BoundKind::Estimated:
      return "error / allowed <= f max(1, that of the base) at every element; f by the fidelity of "
             "the base";
  }
  return "";
}

}  // namespace parity::cli
