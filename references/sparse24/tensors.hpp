// Tensors of the 2:4 chains.
#pragma once

#include "references/chains/chain_op.hpp"
#include "references/quantize/answer.hpp"
#include "references/sparse24/compress.hpp"
#include "references/sparse24/prune.hpp"

namespace parity::sparse24 {

using quantize::columns_of;
using quantize::matrix_spec;
using quantize::rows_of;

// The one input of a stored case as a matrix M x K.
void import_matrix(const StoredCase&, ImportedCase&, std::string_view input);

ExpectedTensor mask_tensor(const TensorSpec&, const Mask&);
// x m: a pruned negative element is -0.
std::vector<double> masked(const Tensor& x, const Mask&, Defect);
ExpectedTensor metadata_tensor(const TensorSpec&, const Compressed&);

}  // namespace parity::sparse24
