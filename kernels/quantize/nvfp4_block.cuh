// NVFP4 on a device, one block of 16 by one thread: amax, e4m3 scale, encode factor, e2m1 codes.
// Every float operation is one IEEE operation (__fmul_rn and its like are never contracted), in the
// order of the chains, so that the bits are those of the reference.
#pragma once

#include <cfloat>
#include <cstdint>
#include <cuda_fp8.h>

#include "kernels/device/storage.cuh"

namespace parity::nvfp4::device {

using parity::device::widen;

// How a chain orders its operations, and what it makes of -0.
enum class Family : std::uint8_t {
  EncodePositive,  // chain A: s = e4m3(min(bamax mult, 448)), enc = min(1 / (s decode), FLT_MAX);
                   // -0 is code 0
  Encode,          // the same, -0 keeps its sign
  Decode,          // chain B: s = e4m3(clamp(bamax/6/decode, 2^-6, 448)), enc = (1/decode) / s
  OneLevel         // chain B, decode = 1
};

// Arithmetic that goes wrong in a mutant.
enum class Defect : std::uint8_t { None, ExactScale, ReciprocalOrder, DropsNan, HalfAway };

template <Family kFamily>
inline constexpr bool kEncodes = kFamily == Family::Encode || kFamily == Family::EncodePositive;

// What is the same for all blocks of a tensor.
struct Plan {
  float amax = 0;
  float encode = 1;   // chain A: S_enc = min(2688/amax, FLT_MAX), 1 where amax is 0 or inf
  float mult = 0;     // chain A: S_enc fl(1/6)
  float decode = 1;   // chain A: 1/S_enc; chain B: the tensor scale amax/2688
  float inverse = 1;  // chain B: 1/decode
};

template <Family kFamily>
__device__ Plan plan_of(float amax) {
  Plan plan;
  plan.amax = amax;
  if constexpr (kEncodes<kFamily>) {
    const float s = __fdiv_rn(2688.0F, amax);
    plan.encode = amax == 0 || s == 0 ? 1.0F : s > FLT_MAX ? FLT_MAX : s;
    plan.mult = __fmul_rn(plan.encode, 1.0F / 6.0F);
    plan.decode = __fdiv_rn(1.0F, plan.encode);
  } else if constexpr (kFamily == Family::Decode) {
    plan.decode = __fdiv_rn(amax, 2688.0F);
    plan.inverse = __fdiv_rn(1.0F, plan.decode);
  }
  return plan;
}

// 16 elements as stored, in words of 32 bits.
template <class T>
struct Block;

template <>
struct Block<std::uint16_t> {
  static constexpr int kWords = 8;
  std::uint32_t words[kWords];
  __device__ float at(int i) const {
    const std::uint32_t w = words[i / 2];
    return __uint_as_float(i % 2 == 0 ? w << 16 : w & 0xFFFF0000U);
  }
  __device__ void put(int i, std::uint16_t x) {
    words[i / 2] |= static_cast<std::uint32_t>(x) << (i % 2 * 16);
  }
  // |x| in 16 bits a lane: as integers, so that NaN is above infinity.
  __device__ float amax() const {
    constexpr std::uint32_t kSize = 0x7FFF7FFFU;
    std::uint32_t largest = words[0] & kSize;
#pragma unroll
    for (int i = 1; i + 1 < kWords; i += 2)
      largest = __vimax3_u16x2(largest, words[i] & kSize, words[i + 1] & kSize);
    largest = __vmaxu2(largest, words[kWords - 1] & kSize);
    largest = max(largest & 0xFFFFU, largest >> 16);
    return __uint_as_float(largest << 16);
  }
};

template <>
struct Block<float> {
  static constexpr int kWords = 16;
  std::uint32_t words[kWords];
  __device__ float at(int i) const { return __uint_as_float(words[i]); }
  __device__ void put(int i, float x) { words[i] = __float_as_uint(x); }
  __device__ float amax() const {
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) largest = max(largest, words[i] & 0x7FFFFFFFU);
    return __uint_as_float(largest);
  }
};

struct Scale {
  std::uint8_t code;
  float encode;
};

__device__ inline float float_from_e4m3(std::uint8_t code) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

template <Family kFamily>
__device__ Scale scale_of(const Plan& plan, float block_amax, Defect defect) {
  constexpr float kTop = 448.0F;
  float wide = 0;
  if constexpr (kEncodes<kFamily>) {
    wide = __fmul_rn(block_amax, plan.mult);
  } else {
    wide = __fdiv_rn(block_amax, 6.0F);
    if constexpr (kFamily == Family::Decode) wide = __fdiv_rn(wide, plan.decode);
    if (wide < 0x1p-6F) wide = 0x1p-6F;
  }
  if (wide > kTop) wide = kTop;  // a comparison, so that NaN stays
  Scale scale{};
  scale.code =
      isnan(wide) ? std::uint8_t{0x7F} : __nv_cvt_float_to_fp8(wide, __NV_SATFINITE, __NV_E4M3);
  const float kept = defect == Defect::ExactScale ? wide : float_from_e4m3(scale.code);
  if constexpr (kEncodes<kFamily>) {
    scale.encode = defect == Defect::ReciprocalOrder
                       ? __fdiv_rn(__fdiv_rn(1.0F, plan.decode), kept)
                       : __fdiv_rn(1.0F, __fmul_rn(kept, plan.decode));
    if (scale.encode > FLT_MAX) scale.encode = FLT_MAX;
  } else {
    scale.encode = defect == Defect::ReciprocalOrder ? __fdiv_rn(1.0F, __fmul_rn(plan.decode, kept))
                                                     : __fdiv_rn(plan.inverse, kept);
  }
  return scale;
}

// A code without its sign is min(rne(2 a), rne(a) + 2, rne(a / 2) + 4, 7): the three lines are the
// steps of 1/2, 1 and 2 between e2m1 values, each lowest where it holds; rounding is monotone and
// the offsets are even, so that ties go to even codes. Adding 2^23 rounds to an integer, which is
// then in the low bits; what is beyond, NaN too, is large as an integer. The result is kBias +
// code.
constexpr std::uint32_t kBias = 0x4B000000U;  // 2^23

__device__ inline std::uint32_t biased_code(float a) {
  const int halves = __float_as_int(__fmaf_rn(a, 2.0F, 0x1p23F));
  const int ones = __float_as_int(__fadd_rn(a, 0x1p23F + 2.0F));
  const int twos = __float_as_int(__fmaf_rn(a, 0.5F, 0x1p23F + 4.0F));
  return static_cast<std::uint32_t>(
      min(__vimin3_s32(halves, ones, twos), static_cast<int>(kBias + 7)));
}

// Bits 3 and 7 of byte i are the signs of y[2i] and y[2i + 1].
__device__ inline std::uint32_t signs_of(const float (&y)[8]) {
  std::uint32_t w[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) w[i] = __float_as_uint(y[i]);
  const std::uint32_t even =
      __byte_perm(__byte_perm(w[0], w[2], 0x0073), __byte_perm(w[4], w[6], 0x7300), 0x7610);
  const std::uint32_t odd =
      __byte_perm(__byte_perm(w[1], w[3], 0x0073), __byte_perm(w[5], w[7], 0x7300), 0x7610);
  return (even >> 4 & 0x08080808U) | (odd & 0x80808080U);
}

// Codes of elements [first, first + 8), the first in the lowest nibble.
template <Family kFamily, class T>
__device__ std::uint32_t eight_codes(const Block<T>& x, int first, float encode, Defect defect) {
  float y[8];
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    y[i] = __fmul_rn(x.at(first + i), encode);
    if constexpr (kFamily == Family::EncodePositive) y[i] = __fadd_rn(y[i], 0.0F);
    float a = fabsf(y[i]);
    if (defect == Defect::HalfAway) a = __uint_as_float(__float_as_uint(a) + 1);
    codes = codes * 16 + biased_code(a);
  }
  constexpr std::uint32_t kBiases = kBias * 17;  // of the two lowest; the others lie beyond 32 bits
  return (codes - kBiases) | signs_of(y);
}

}  // namespace parity::nvfp4::device
