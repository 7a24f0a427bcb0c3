// Hop 3b: the base at a contract and its harmless variants.
#include <algorithm>

#include "harness/numeric/philox.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

// Variants cost as much as the base; beyond that many output elements four have to do. A function
// of the case alone, so that a case has one verdict.
constexpr std::int64_t kLarge = std::int64_t{1} << 23;

int variants_for(const OpDef& op, const Case& problem) {
  if (problem.check == Check::Exact || problem.check == Check::Bitwise ||
      problem.check == Check::Sharded)
    return 0;  // equality needs no floor
  std::int64_t total = 0;
  for (const TensorSpec& spec : op.outputs(problem)) total += elements(spec.dims);
  return total > kLarge ? static_cast<int>(kFewestVariants) : kVariants;
}

}  // namespace

Base run_base(const OpDef& op, const Case& problem, const Contract& contract, const Tensors& inputs,
              bool gradients) {
  Base base;
  if (!op.base) return base;
  const int variants = variants_for(op, problem);
  // Draws of the variants have nothing to do with those of the inputs, whose streams are tensor
  // numbers.
  const Rng rng{.seed = problem.seed, .stream = ~std::uint64_t{0}};
  for (int v = 0; v <= variants; ++v)
    base.runs.push_back(op.base({.problem = problem,
                                 .contract = contract,
                                 .inputs = inputs,
                                 .variation = v,
                                 .seed = rng.bits(static_cast<std::uint64_t>(v)),
                                 .gradients = gradients}));
  return base;
}

}  // namespace parity
