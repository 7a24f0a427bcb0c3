// Tensors of the integer chains: codes, scales and zero points, the latter two flattened over the
// blocks, as in the sources.
#pragma once

#include "references/chains/chain_op.hpp"
#include "references/integer/affine.hpp"
#include "references/quantize/answer.hpp"

namespace parity::integer {

using quantize::columns_of;
using quantize::matrix_spec;
using quantize::rows_of;

TensorSpec group_spec(std::string_view name, Role, Dtype, std::int64_t groups);

// Affine parameters by the options of a case:
//   mapping=symmetric|no_clipping|asymmetric   qmin=, qmax=   scale=f32|bf16 (the data's)
//   block=RxC (0: all of that axis)   eps=
Affine affine_of(const Case&, std::string_view fault);
std::int64_t groups_of(const Case&, const Affine&);

// Sets the options above from the attributes of a stored case (mapping_type, quant_min, quant_max,
// scale_dtype, block, eps).
void import_affine(const StoredCase&, ImportedCase&);

// By spec: "codes", "scale", "zero_point" of the groups, "dequant" or "fake_quant".
ExpectedTensor affine_tensor(const TensorSpec&, const Integers&);
std::vector<float> floats_of(const Tensor&);

}  // namespace parity::integer
