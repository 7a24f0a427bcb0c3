// Affine quantisation to integers as torchao writes it: a scale and a zero point for each block of
// a matrix, all of it in the data's own dtype. R(v) is one rounding to the data's format, R_w(v) to
// the wider of data and scale (no rounding in f32).
//
//   range        min- = min(min, 0), max+ = max(max, 0)
//   symmetric    s = R(max(-min-, max+) / ((qmax - qmin)/2))                         zp = 0
//   no clipping  s = max(R(min- / qmin), R(max+ / qmax))                             zp = 0
//   asymmetric   s = R(R(max+ - min-) / (qmax - qmin)), zp = clamp(R(qmin - round(R(min- / s))))
//   tinygemm     s = R(R(max - min) / (qmax - qmin)), zp = R(min + R(s mid)), mid = (qmax + qmin +
//                1)/2: a number among the data; the range need not hold 0
//   then s = max(s, R(eps)); zp is formed from that s; only then is s cast to the scale's dtype
//
//   integer      q = clamp(R_w(round(R_w(x inv)) + zp)), inv = 1/s in the scale's dtype
//                value R(R_w(R(q - zp) s))
//   tinygemm     q = clamp(round(R(R(x - lo) / s))), lo = R(zp - R(s mid))
//                value R(R(R(q - mid) s) + zp)
//   gradient     straight through, scales held fixed: R(R_w(m R(R_w(g s)) inv)), +0 where masked,
//                m = [qmin <= integer before the clamp <= qmax]
//   source       torchao 0.18.0, quantization/quant_primitives.py, qat/fake_quantizer.py
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "references/integer/faults.hpp"
#include "references/quantize/nvfp4.hpp"

namespace parity::integer {

using quantize::Matrix;

// One rounding of an f32 result to the format.
float rounded(Dtype, float value);
// Nearest integer, ties to even; other roundings by defect.
float nearest_integer(float value, Defect defect);

enum class Mapping : std::uint8_t { Symmetric, NoClipping, Asymmetric, Tinygemm };
Mapping parse_mapping(const std::string&);  // of a source, "SYMMETRIC_NO_CLIPPING_ERR", or ours

struct Affine {
  Mapping mapping = Mapping::Symmetric;
  int qmin = -128;
  int qmax = 127;
  Dtype data = Dtype::F32;
  Dtype scale = Dtype::F32;
  float eps = 0x1p-126F;  // finfo(data).smallest_normal, the same for f32 and bf16
  std::int64_t block_rows = 1;
  std::int64_t block_columns = 0;  // 0: the whole row
  Defect defect = Defect::None;

  Dtype wide() const;  // R_w
  float mid() const { return static_cast<float>(qmax + qmin + 1) / 2; }
};

struct Group {
  float scale = 0;
  float zero = 0;
  bool open = false;  // the zero point comes from a NaN: a cast that C++ and torch leave undefined
};
// The parameters of a block by its extreme values.
Group choose(const Affine&, float min, float max);

struct Integers {
  std::int64_t groups_per_row = 0;
  std::vector<Group> groups = {};
  std::vector<float> codes = {};
  std::vector<float> values = {};         // dequantised, in the data's format
  std::vector<std::uint8_t> inside = {};  // 1: the integer was in range before the clamp
  std::vector<std::uint8_t> open = {};    // 1: no definition of the code
};
// Why the block does not tile the matrix; "" = it does.
std::string refuses(const Affine&, std::int64_t rows, std::int64_t columns);
std::vector<Group> choose_all(const Affine&, const Matrix&);
// By `integer` whatever the groups came from; by `tinygemm` where the mapping is that.
Integers quantise(const Affine&, const Matrix&, std::vector<Group> groups);
// Index of the group of element (m, k).
std::int64_t group_of(const Affine&, std::int64_t columns, std::int64_t m, std::int64_t k);

// The gradient above, one value an element, in the data's format.
std::vector<float> straight_through(const Affine&, const Matrix& x, const Integers&,
                                    const std::vector<float>& cotangent);

}  // namespace parity::integer
