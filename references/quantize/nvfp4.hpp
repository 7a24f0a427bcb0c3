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
#include "references/quantize/answer.hpp"
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
  float encode = 0;  // y = fl(x * encode), or fl(x / encode) where the chain divides
};
// Which block: chains with several tensor scales ask for it.
struct Place {
  std::int64_t row = 0;
  std::int64_t column = 0;  // the block's first
};
struct Chain {
  std::function<BlockScale(float block_amax, const Place&)> scale = {};
  // Code of y at that flat index; empty: nearest even by `policy`. A NaN code is nobody's business.
  std::function<std::uint8_t(float y, std::int64_t index)> code = {};
  bool divides = false;
  std::int64_t tile = 1;    // rows that share a scale: 1 or 16; rows are padded to it with zeros
  std::int64_t block = 16;  // columns that share a scale
  Dtype scales = Dtype::E4M3;
  E2m1Policy policy = {};
  Defect defect = Defect::None;
};

struct Quantised {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t blocks = 0;  // per row; the last may be short
  std::int64_t tile = 1;
  std::int64_t block = 16;
  std::vector<std::uint8_t> codes = {};  // one element each
  // 1: scale or value is NaN, so that no chain defines the code
  std::vector<std::uint8_t> open = {};
  std::vector<std::uint8_t> scales = {};  // rows padded to the tile x blocks
  std::vector<float> encode = {};         // one a tile: rows / tile x blocks
  std::vector<float> scaled = {};         // y, one an element

  std::int64_t scale_rows() const { return (rows + tile - 1) / tile * tile; }
  std::size_t scale_at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * blocks + column / block);
  }
};
Quantised quantise(const Matrix&, const Chain&);

// code * scale(block), one value an element; NaN where the scale is.
using Product = std::function<float(float code, float scale, const Place&)>;
std::vector<float> dequantised(const Quantised&, const Product&, Dtype scales = Dtype::E4M3);

// ---- into Expected
// -----------------------------------------------------------------------------------------------------

struct Result {
  Quantised rows = {};
  Quantised columns = {};  // of the transposed matrix, where asked for
  // "tensor_scale", "amax", "rht_t", ... as the case names them
  std::map<std::string, std::vector<float>> values = {};
  // Of values whose order of summation is nobody's promise: the sum of |terms|, for a bound.
  std::map<std::string, std::vector<float>> magnitudes = {};
  std::vector<float> dequant = {};
  // Columns of x^T that a swizzled buffer of its scales restarts at; empty: it does not.
  std::vector<std::int64_t> groups = {};
};

// Every tensor that the case has, by name: codes, scales, scales_swizzled, encode_scale (also with
// `_t`), dequant, dequant_f32, grads/x (straight through: the cotangent of dequant itself), and
// what `values` names.
Expected expected_of(const std::vector<TensorSpec>&, const Tensors& inputs, const Result&, Defect);

// ---- tensors of a case
// -------------------------------------------------------------------------------------------------

// x, and the cotangent of dequant with ste=1: what every chain takes.
std::vector<TensorSpec> plain_inputs(const Case&);
TensorSpec codes_spec(std::string_view name, std::int64_t rows, std::int64_t columns);
TensorSpec scales_spec(std::string_view name, std::int64_t rows, std::int64_t columns);
TensorSpec scalar_spec(std::string_view name);
TensorSpec values_spec(std::string_view name, Dtype, std::int64_t rows, std::int64_t columns);
// f32 numbers of one axis.
TensorSpec vector_spec(std::string_view name, std::int64_t n);
TensorSpec swizzled_spec(std::string_view name, std::int64_t bytes);
// By the option trace=1 what every chain has in common, step by step: tensor_amax, scales,
// encode_scale, codes, dequant_f32. Else `own`.
std::vector<TensorSpec> traced_or(const Case&, std::vector<TensorSpec> own);
// By the options swizzle=1, dequant=1, dequant_f32=1, ste=1 (with grads/x).
std::vector<TensorSpec> optional_specs(const Case&);

inline std::int64_t blocks_of(std::int64_t columns) { return (columns + kBlock - 1) / kBlock; }

}  // namespace parity::quantize
