// NF4, sixteen quantiles of the normal distribution under the amax of a block, and the second
// quantisation of those amaxes.
//   y = R(x / amax of the block)     code = the nearest of the table, the lower one at a tie
//   double quantisation: mean = R(mean of the amaxes), d = R(amax - mean),
//     f = R(256 / (2 max |d|)) of `scaler_block` amaxes, c = clamp(round(R(d f)), -128, 127),
//     amax' = R(R(c / f) + mean)
//   value = R(table[code] amax')
// R is one rounding to the data's format, of the table's entries too. The mean is that of the exact
// sum: torch sums in an order of its own, and its last bit may differ. A block of zeros is 0/0.
//   sources  QLoRA (arXiv 2305.14314, appendix E: the table); pytorch/ao
//            torchao/dtypes/nf4tensor.py (the order of operations; its table has four digits)
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "references/integer/faults.hpp"
#include "references/quantize/nvfp4.hpp"

namespace parity::integer {

inline constexpr std::array<float, 16> kNf4Qlora = {-1.0F,
                                                    -0.6961928009986877F,
                                                    -0.5250730514526367F,
                                                    -0.39491748809814453F,
                                                    -0.28444138169288635F,
                                                    -0.18477343022823334F,
                                                    -0.09105003625154495F,
                                                    0.0F,
                                                    0.07958029955625534F,
                                                    0.16093020141124725F,
                                                    0.24611230194568634F,
                                                    0.33791524171829224F,
                                                    0.44070982933044434F,
                                                    0.5626170039176941F,
                                                    0.7229568362236023F,
                                                    1.0F};
inline constexpr std::array<float, 16> kNf4Torchao = {
    -1.0F,   -0.6962F, -0.5251F, -0.3949F, -0.2844F, -0.1848F, -0.0911F, 0.0F,
    0.0796F, 0.1609F,  0.2461F,  0.3379F,  0.4407F,  0.5626F,  0.7230F,  1.0F};

struct Nf4Request {
  Dtype data = Dtype::F32;
  std::array<float, 16> table = kNf4Qlora;
  std::int64_t block = 64;
  std::int64_t scaler_block = 256;  // amaxes that share a factor; 0: they are stored as they are
  Defect defect = Defect::None;
};

struct Nf4 {
  std::vector<std::uint8_t> codes = {};  // 0..15
  std::vector<float> amax = {};          // of each block
  std::vector<float> scalers = {};       // amaxes quantised, integers; empty without scaler_block
  std::vector<float> factors = {};       // one for scaler_block of them
  float mean = 0;
  std::vector<float> values = {};       // dequantised
  std::vector<std::uint8_t> open = {};  // 1: y is NaN, and the code nobody's
};
Nf4 quantise_nf4(const Nf4Request&, const quantize::Matrix&);

}  // namespace parity::integer
