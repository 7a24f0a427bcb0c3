// The bound of kda.
#include "harness/kernel.hpp"

namespace parity {
namespace {

constexpr std::string_view kByCompanion =
    "|e| <= u_out |x*| + 4 u m. The companion m (references/kda/forward.cpp, backward.cpp) carries "
    "errors by the 2-norm of the "
    "transition and adds one roundoff of every operand that enters a token: decayed state, "
    "prediction, value, write. Between "
    "two tokens an operand sees about ten roundings (prefix sum, its log2 e, exponential, two "
    "products of keys, beta, "
    "substitution, two products, sum), independent of each other and of zero mean: sqrt(10) < 4. A "
    "dot product of K terms "
    "adds sqrt(log2 K) < 3 of the same to the norm product |k| |S| that m takes for it, which "
    "exceeds its rms by sqrt(K).";
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

Bound bound(const Case&, const Contract& contract, const TensorSpec& spec) {
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
  b.c_acc = 4;
  b.growth = {.kind = Growth::Kind::WorstCase, .n = 1};
  b.accumulate = contract.accumulate;
  b.why = kByCompanion;
  return b;
}

const Register kda{BoundDef{.op = "kda", .bound = bound}};

}  // namespace
}  // namespace parity
