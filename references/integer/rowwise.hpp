// INT8 with one scale a row, as torchao's quantised training:
//   s = R(amax / 127)     q = clamp(round(fl(x fl(1 / max(s, 1e-12)))), -128, 127)
// R is one rounding to the data's format; everything else is f32. A row of zeros keeps s = 0.
//   source  torchao 0.18.0, prototype/quantized_training/int8.py
#pragma once

#include "references/integer/affine.hpp"

namespace parity::integer {

struct Rowwise {
  std::vector<float> scales = {};
  std::vector<float> codes = {};
  std::vector<std::uint8_t> open = {};
};
Rowwise quantise_rows(Dtype data, const Matrix&, Defect);

}  // namespace parity::integer
