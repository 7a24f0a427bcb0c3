// The products of a plan as truth, and as evaluations at a contract.
#pragma once

#include "references/linear/recipe.hpp"

namespace parity::linear {

std::vector<TensorSpec> inputs(const Case&);
std::vector<TensorSpec> outputs(const Case&);
std::string refuses(const Case&);

Expected reference(const Case&, const Tensors&, bool gradients);
Evaluation base(const BaseRequest&);
Bound bound(const Case&, const Contract&, const TensorSpec&);

// Faults of the base; the recipes know some, the evaluation the others.
std::vector<FaultDef> faults();

// Shards of a tensor-parallel layer: tp=column (rows of w) or tp=row (columns of w and x), `ranks`.
// Scales are those of the whole tensor (the maxima are reduced first), so that codes do not depend
// on the shards; a contracted axis that is cut is summed by parts, each rounded to the output's
// format before the reduction.
std::int64_t ranks_of(const Case&, std::string_view output);  // 1: its sum is not cut

}  // namespace parity::linear
