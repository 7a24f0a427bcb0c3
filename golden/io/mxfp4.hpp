// Weights that a checkpoint stores as MXFP4 (OCP Microscaling Formats 1.0, §5.2):
// "X.weight_packed", two E2M1 codes a byte with the even element in the low nibble, [out, in/2],
// and "X.weight_scale", an E8M0 code for 32 elements, [out, in/32].
#pragma once

#include "golden/io/tensor_file.hpp"

namespace parity::io {

bool holds_mxfp4(const TensorFile&);

// The same file with each pair as one bf16 tensor "X.weight" [out, in], which is exact: UsageError
// for a pair that is not whole or whose shapes disagree, and, when it is read, for a value that
// bf16 has not (a scale that is NaN or beyond 2^125).
TensorFile dequantised(TensorFile);

}  // namespace parity::io
