// The NVFP4 kernel around its inner loops: tensor scale, rows and their tails, transposed copy,
// 128x4 scales, dequantisation.
#pragma once

#include <string>
#include <vector>

#include "harness/kernel.hpp"
#include "kernels/quantize/steps.hpp"

namespace parity::nvfp4 {

// Chains by the names of the op's option `chain`.
std::string refuses(const Case&, const Options&);
std::size_t workspace(const Case&, const Options&, Direction);
void forward(const Launch&, const Steps&);
void backward(const Launch&);

std::vector<FaultDef> kernel_faults();

// The plan of a tensor for a chain, given the largest |x|.
Plan plan_of(const Case&, float amax);
// S_enc = min(bound/amax, FLT_MAX), 1 where amax is 0 or inf; bound 2688 but for four over six.
float encode_scale(float amax, float bound);

// Plain row-major scales to the 128x4 layout, padding zero.
void swizzle(const std::uint8_t* scales, std::int64_t rows, std::int64_t blocks, std::uint8_t* to);

// One dense matrix of rows x columns. Rows are quantised on their own: a row whose length is no
// multiple of 16 ends in a block of zeros.
struct MatrixJob {
  Dtype dtype = Dtype::F32;
  const std::byte* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int threads = 1;
  std::string_view fault = {};
};
struct MatrixResult {
  std::uint8_t* codes = nullptr;
  std::uint8_t* scales = nullptr;
  float* encode = nullptr;  // or null
};
float amax_of(const MatrixJob&, const Steps&);
void quantise_matrix(const MatrixJob&, const Steps&, const Plan&, const MatrixResult&);
void dequantise_matrix(const MatrixJob&, const Steps&, const Plan&, const MatrixResult&,
                       std::byte* values);  // in job.dtype; job.x is not read

// A scale for `tile` rows (1 or 16) and 16 columns; under Order::Choice the better of two. Scales
// are those of rows padded to the tile; `encode` has one factor a tile.
void quantise_bands(const MatrixJob&, const Steps&, const Plan&, std::int64_t tile,
                    const MatrixResult&);
// x^T, or its transform where there are signs (bf16, rows a multiple of 16), as dense rows.
void transpose(const MatrixJob&, const Steps&, const float* signs, std::byte* to);

}  // namespace parity::nvfp4
