// One element at a time: what the scalar steps of several quantisers share.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/dtype.hpp"
#include "harness/numeric/formats.hpp"

namespace parity {

inline float element_of(Dtype dtype, const void* x, std::int64_t i) {
  if (dtype == Dtype::BF16) return float_from_bf16(static_cast<const std::uint16_t*>(x)[i]);
  return static_cast<const float*>(x)[i];
}

inline void store_element(Dtype dtype, void* values, std::int64_t i, float v) {
  if (dtype == Dtype::BF16)
    static_cast<std::uint16_t*>(values)[i] = bf16_from_float(v);
  else
    static_cast<float*>(values)[i] = v;
}

// A mutant's cast of a finite y: ties away from zero, saturating.
inline std::uint8_t code_half_away(Dtype elem, float y) {
  const Conversion low{.rounding = Rounding::TowardZero, .overflow = Overflow::Saturate};
  const auto code = static_cast<std::uint8_t>(encode(elem, y, low));
  const double size = std::fabs(static_cast<double>(y));
  const double below = std::fabs(decode(elem, code));
  const double above = std::fabs(decode(elem, code + 1U));
  const bool up = size < format(elem).max_finite && size - below >= above - size;
  return static_cast<std::uint8_t>(code + (up ? 1 : 0));
}

}  // namespace parity
