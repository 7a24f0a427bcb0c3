// The random Hadamard transform of NVFP4 training: 16 consecutive columns times
//   R = diag(sgn) H16 / 4,   H16[i][j] = (-1)^popcount(i & j)  (Sylvester),   R R^T = I.
// (A R)(B R)^T = A B^T, so that both operands of a product take the same signs. Entries of R are
// exact in bf16; the sum is kept exact and rounded once to the storage format, which is what bf16
// inputs with f32 accumulation give wherever their exponents lie within 12 bits of each other
// (arXiv 2509.25149; Transformer Engine and torchao train with it).
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {

using Signs = std::array<float, 16>;  // +-1

inline constexpr std::uint16_t kTeSigns = 0xD7E8;                 // bit i: sgn[i] = -1
std::optional<std::uint16_t> parse_signs(std::string_view text);  // "0xD7E8"; nothing: unreadable
Signs signs_of(std::uint16_t mask);
Signs signs_of(const Tensor&);  // Failure where an entry is not +-1 or there are not 16

// Columns must be a multiple of 16. `format`: F32 or BF16.
Matrix rht(const Matrix&, const Signs&, Dtype format, Defect defect = Defect::None);
// Sum of the |terms| behind each element, 0 where it is not finite.
std::vector<float> rht_magnitudes(const Matrix&);
Matrix rht_inverse(const Matrix&, const Signs&, Dtype format);

}  // namespace parity::quantize
