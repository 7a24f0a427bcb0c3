// Elements of f32 and bf16 as they are stored, widened exactly and rounded once.
#pragma once

#include <cstdint>

#include "harness/kernel.hpp"

namespace parity::device {

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(std::uint16_t x) {
  return __uint_as_float(static_cast<std::uint32_t>(x) << 16);
}
__device__ inline void narrow(float x, float& to) { to = x; }
// To nearest, ties to even; a NaN keeps its sign and is quiet.
__device__ inline void narrow(float x, std::uint16_t& to) {
  const std::uint32_t bits = __float_as_uint(x);
  const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16 & 0x8000U) | 0x7FC0U;
  to = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

// Calls f with a value of the element's storage type.
template <class F>
void with_storage(Dtype dtype, const F& f) {
  if (dtype == Dtype::BF16)
    f(std::uint16_t{});
  else
    f(float{});
}

}  // namespace parity::device
