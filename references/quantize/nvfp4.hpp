// What the NVFP4 chains share: a matrix of f32 values, blocks of 16 along its rows, e2m1 codes and
// e4m3 scales. Every float operation here is one IEEE f32 operation in the written order; a chain
// differs from its neighbour by one of them.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/numeric/formats.hpp"
#include "harness/registry.hpp"
#include "references/quantize/faults.hpp"

namespace parity::quantize {

inline constexpr std::int64_t kBlock = 16;
inline constexpr float kMaxE2m1 = 6.0F;
inline constexpr float kMaxE4m3 = 448.0F;
inline constexpr float kMinNormalE4m3 = 0.015625F;  // 2^-6

struct Matrix {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::vector<float> values = {};  // row-major
};
Matrix matrix_of(const Tensor& x);  // exact; any leading axes become rows
Matrix transposed(const Matrix&);

// max |x|, NaN if one is there; 0 of nothing. By defect: signed, or with a NaN dropped.
float amax(std::span<const float> values, Defect defect = Defect::None);
// amax times the option `amax_factor`: a calibrated amax that differs from the data's.
float calibrated_amax(const Case&, const Matrix&, Defect defect);

// Where either is NaN the result is (as torch.minimum, unlike fminf).
float min_nan(float a, float b);
float max_nan(float a, float b);

// e4m3 of a non-negative scale, saturating; the defects of the cast.
std::uint8_t scale_code(float scale, Defect defect);
float scale_value(std::uint8_t code, Defect defect);

// What a chain makes of a block.
struct BlockScale {
  std::uint8_t code = 0;
  float encode = 0;  // y = fl(x * encode)
};
struct Chain {
  std::function<BlockScale(float block_amax)> scale = {};
  E2m1Policy policy = {};
  Defect defect = Defect::None;
};

struct Quantised {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t blocks = 0;               // per row; the last may be short
  std::vector<std::uint8_t> codes = {};  // one element each
  std::vector<std::uint8_t> open =
      {};  // 1: scale or value is NaN, so that no chain defines the code
  std::vector<std::uint8_t> scales = {};
  std::vector<float> encode = {};
  std::vector<std::uint8_t> clamped = {};  // 1: |y| > 6
};
Quantised quantise(const Matrix&, const Chain&);

// code * scale(block), one value an element; NaN where the scale is.
std::vector<float> dequantised(const Quantised&,
                               const std::function<float(float code, float scale)>& product);

// ---- into Expected
// -----------------------------------------------------------------------------------------------------

struct Result {
  Quantised rows = {};
  Quantised columns = {};                     // of the transposed matrix, where asked for
  std::map<std::string, float> scalars = {};  // "tensor_scale", "amax", ... as the case names them
  std::vector<float> dequant = {};
};

// Every tensor that the case has, by name: codes and scales (also `_t`, swizzled), encode_scale,
// scalars, dequant, dequant_f32, grads/x (straight through: the cotangent of dequant itself).
Expected expected_of(const std::vector<TensorSpec>&, const Tensors& inputs, const Result&, Defect);

// ---- tensors of a case
// -------------------------------------------------------------------------------------------------

TensorSpec codes_spec(std::string_view name, std::int64_t rows, std::int64_t columns);
TensorSpec scales_spec(std::string_view name, std::int64_t rows, std::int64_t columns);
TensorSpec scalar_spec(std::string_view name);
TensorSpec values_spec(std::string_view name, Dtype, std::int64_t rows, std::int64_t columns);
// By the options swizzle=1, dequant=1, dequant_f32=1, ste=1 (with grads/x).
std::vector<TensorSpec> optional_specs(const Case&);

inline std::int64_t rows_of(const Case& c) { return c.sizes.get("M", 1); }
inline std::int64_t columns_of(const Case& c) { return c.sizes["K"]; }
inline std::int64_t blocks_of(std::int64_t columns) { return (columns + kBlock - 1) / kBlock; }

}  // namespace parity::quantize
