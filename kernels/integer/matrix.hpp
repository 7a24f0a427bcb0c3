// A matrix quantised to integers by groups of its rows, on threads over rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/kernel.hpp"
#include "kernels/integer/steps.hpp"

namespace parity::integer_kernel {

enum class Mapping : std::uint8_t { Symmetric, NoClipping, Asymmetric, Rows };

struct MatrixJob {
  Mapping mapping = Mapping::Symmetric;
  Dtype dtype = Dtype::F32;        // of x
  Dtype scale_dtype = Dtype::F32;  // in which scales are kept
  float qmin = -128, qmax = 127;
  float eps = 0x1p-126F;
  const std::byte* x = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t group = 0;  // columns of a group
  int threads = 1;
  std::string_view fault = {};
};

// Each may be null.
struct MatrixResult {
  std::int8_t* codes = nullptr;
  std::uint8_t* packed = nullptr;  // int4 pairs
  std::byte* scales = nullptr;     // in scale_dtype, one a group
  std::int32_t* zeros = nullptr;
  std::byte* values = nullptr;  // in dtype
};
void quantise_matrix(const MatrixJob&, const Steps&, const MatrixResult&);
std::vector<FaultDef> matrix_faults();

}  // namespace parity::integer_kernel
