// The bound of kda.
#include <algorithm>
#include <cmath>

#include "harness/kernel.hpp"

namespace parity {
namespace {

constexpr std::string_view kByCompanion =
    "|e| <= u_out |x*| + c u m, c = 4 sqrt(max(1, 10 / K)). The companion m "
    "(references/kda/forward.cpp, backward.cpp) is a propagated norm: the root of the sum of "
    "squares of one roundoff of every operand that enters a token (decayed state, prediction, "
    "value, write), each as a norm over K, carried by the transition. Roundings are independent, "
    "of "
    "mean zero and variance u^2/3 at most, so a sum of them with weights of norm m exceeds lambda "
    "/ "
    "sqrt(3) u m with probability 2 exp(-lambda^2 / 2); 1e-6 over 1e4 elements asks for lambda = "
    "6.9: lambda / sqrt(3) = 4. How many roundings share one weight of m, token by token: "
    "exponential, decay of the state, product and sum with k, difference to v, beta, product and "
    "sum of the write, product and sum with q: 10; in chunks: exponential, product of decays, "
    "product and sum of keys, sum of the substitution, beta, the same product with the state, key "
    "times decay to the end, product and sum of the write: 10. A sum of K terms counts once: its "
    "partial sums walk at random, their squares add up to K/2 squares of a term, and the norm "
    "product |k| |S| in m stands for K of them. A rounding of one element is the share 1/sqrt(K) "
    "of "
    "the norm that m takes for it, so ten make up at most sqrt(10 / K) of m. Estimated: keys that "
    "are correlated make partial sums walk straight and the substitution carries errors by its "
    "condition, and sums over V are V long; there the limit follows what the base itself uses.";
constexpr std::string_view kBySpread =
    "|e| <= u_out |x*| + c sigma: intermediates are stored in a narrow format, where a carried "
    "norm exceeds the output. "
    "sigma_i is the rms error of the base and its variants at element i, moderated towards its "
    "row; c is Student's quantile "
    "at which a clean tensor of this size stays inside with probability 1 - 1e-6 (noise.cpp).";

// An intermediate narrower than f32 makes the base's variants the measure, an output that is merely
// stored narrow does not.
bool narrow_inside(const Contract& contract) {
  for (const RoundingPoint& point : contract.roundings)
    if (point.where != "o" && format(point.to).mantissa_bits < format(Dtype::F32).mantissa_bits)
      return true;
  return false;
}

Bound bound(const Case& c, const Contract& contract, const TensorSpec& spec) {
  Bound b;
  const RoundingPoint* output = contract.rounding(spec.name);
  b.rho = output && output->mode != Rounding::NearestEven ? 2 : 1;
  // Results below the smallest normal number may be flushed: 2^mantissa_bits times the smallest
  // subnormal.
  const Format& out = format(spec.dtype);
  b.subnormals = out.min_normal / out.min_subnormal;
  if (narrow_inside(contract)) {
    b.scale_from = ScaleFrom::Spread;
    b.why = kBySpread;
    return b;
  }
  b.c_acc = 4 * std::sqrt(std::max(1.0, 10 / static_cast<double>(c.sizes["K"])));
  b.growth = {.kind = Growth::Kind::WorstCase, .n = 1};
  b.accumulate = contract.accumulate;
  b.why = kByCompanion;
  return b;
}

const Register kda{BoundDef{.op = "kda", .bound = bound}};

}  // namespace
}  // namespace parity
