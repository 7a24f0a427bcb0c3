// Elements of tensors as they are stored, on a device: what a code is worth, and its place among
// the codes of its format.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "harness/dtype.hpp"

namespace parity::device_elements {

// What 8-bit codes, and those of fewer bits, mean.
struct Meaning {
  double value;
  std::int64_t rank;
};

// Elements of one format: N codes in 16 bytes, what a code is worth and its place among others.
template <Dtype kDtype>
struct Stored;
template <class CodeType, int kCount>
struct Plain {
  using Code = CodeType;
  static constexpr int kPerPiece = kCount;
  __device__ static Code code(const Code* codes, int i) { return codes[i]; }
};
template <class Code, Code kSign, Code kInfinity>
struct SignMagnitude {
  __device__ static bool finite(Code c) { return (c & (kSign - 1)) < kInfinity; }
  __device__ static bool nan(Code c) { return (c & (kSign - 1)) > kInfinity; }
  __device__ static std::int64_t rank(Code c) {
    const auto magnitude = static_cast<std::int64_t>(c & (kSign - 1));
    return (c & kSign) != 0 ? -magnitude : magnitude;
  }
};
template <>
struct Stored<Dtype::F64>
    : Plain<std::uint64_t, 2>,
      SignMagnitude<std::uint64_t, std::uint64_t{1} << 63, 0x7FF0000000000000U> {
  __device__ static double value(Code c, const Meaning*) { return __longlong_as_double(c); }
};
template <>
struct Stored<Dtype::F32> : Plain<std::uint32_t, 4>,
                            SignMagnitude<std::uint32_t, 0x80000000U, 0x7F800000U> {
  __device__ static double value(Code c, const Meaning*) { return __uint_as_float(c); }
};
template <>  // low bits of the pattern that the format has not do not count
struct Stored<Dtype::TF32> : Stored<Dtype::F32> {
  __device__ static std::int64_t rank(Code c) {
    const auto magnitude = static_cast<std::int64_t>((c & 0x7FFFFFFFU) >> 13);
    return (c & 0x80000000U) != 0 ? -magnitude : magnitude;
  }
};
template <>
struct Stored<Dtype::BF16> : Plain<std::uint16_t, 8>,
                             SignMagnitude<std::uint16_t, 0x8000U, 0x7F80U> {
  __device__ static double value(Code c, const Meaning*) {
    return __uint_as_float(static_cast<std::uint32_t>(c) << 16);
  }
};
template <>
struct Stored<Dtype::F16> : Plain<std::uint16_t, 8>,
                            SignMagnitude<std::uint16_t, 0x8000U, 0x7C00U> {
  __device__ static double value(Code c, const Meaning*) {
    float f = 0;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(c));
    return f;
  }
};
template <class CodeType, class Signed, int kCount>
struct Integer : Plain<CodeType, kCount> {
  __device__ static bool finite(CodeType) { return true; }
  __device__ static bool nan(CodeType) { return false; }
  __device__ static std::int64_t rank(CodeType c) { return static_cast<Signed>(c); }
  __device__ static double value(CodeType c, const Meaning*) {
    return static_cast<double>(static_cast<Signed>(c));
  }
};
template <>
struct Stored<Dtype::I64> : Integer<std::uint64_t, std::int64_t, 2> {};
template <>
struct Stored<Dtype::I32> : Integer<std::uint32_t, std::int32_t, 4> {};
template <>
struct Stored<Dtype::I16> : Integer<std::uint16_t, std::int16_t, 8> {};
// Codes of up to a byte, E2M1 two in one: by table.
template <>
struct Stored<Dtype::U8> : Plain<std::uint8_t, 16> {
  __device__ static double value(Code c, const Meaning* of) { return of[c].value; }
};
template <>
struct Stored<Dtype::E2M1> : Plain<std::uint8_t, 32> {
  __device__ static Code code(const Code* codes, int i) { return codes[i / 2] >> (i % 2 * 4) & 15; }
  __device__ static double value(Code c, const Meaning* of) { return of[c].value; }
};
template <Dtype kDtype>
constexpr bool kByTable = kDtype == Dtype::U8 || kDtype == Dtype::E2M1;

}  // namespace parity::device_elements
