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
// S_enc = min(2688/amax, FLT_MAX), 1 where amax is 0 or inf.
float encode_scale(float amax);

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

}  // namespace parity::nvfp4
