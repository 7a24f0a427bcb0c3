// Codes and values against the host functions of the CUDA toolkit's headers.
#include <gtest/gtest.h>

#if __has_include(<cuda_fp4.h>) && __has_include(<cuda_fp6.h>) && __has_include(<cuda_fp8.h>) && \
    __has_include(<cuda_bf16.h>) && __has_include(<cuda_fp16.h>)
#define PARITY_HAS_CUDA_FORMATS 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#pragma GCC diagnostic pop
#endif

#include <bit>
#include <cmath>
#include <cstring>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

#ifndef PARITY_HAS_CUDA_FORMATS

TEST(FormatsCuda, AgreesWithTheToolkit) {
  GTEST_SKIP()
      << "no cuda_fp4.h, cuda_fp6.h, cuda_fp8.h, cuda_bf16.h, cuda_fp16.h on the include path";
}

#else

double from_half(__half_raw raw) { return static_cast<double>(__half2float(__half(raw))); }

std::uint16_t half_bits(__half value) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

std::uint16_t bf16_bits(__nv_bfloat16 value) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Same value, NaN being one of them.
::testing::AssertionResult same(double a, double b) {
  if ((std::isnan(a) && std::isnan(b)) ||
      std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << a << " is not " << b;
}

template <class Check>
void over_floats(Check&& check) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 1021) {
    check(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (std::uint32_t top = 0; top < (1u << 16);
       ++top) {  // on the grids of the short formats, and beside their ties
    for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      check(std::bit_cast<float>((top << 16) | low));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(FormatsCuda, EveryCodeDecodesAlike) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    ASSERT_TRUE(same(decode(Dtype::E4M3, c), from_half(__nv_cvt_fp8_to_halfraw(c, __NV_E4M3))))
        << code;
    ASSERT_TRUE(same(decode(Dtype::E5M2, c), from_half(__nv_cvt_fp8_to_halfraw(c, __NV_E5M2))))
        << code;
    const __nv_bfloat16_raw scale = __nv_cvt_e8m0_to_bf16raw(c);
    ASSERT_TRUE(same(decode(Dtype::E8M0, c), decode(Dtype::BF16, scale.x))) << code;
  }
  for (std::uint8_t code = 0; code < 64; ++code) {
    ASSERT_TRUE(
        same(decode(Dtype::E3M2, code), from_half(__nv_cvt_fp6_to_halfraw(code, __NV_E3M2))))
        << int{code};
    ASSERT_TRUE(
        same(decode(Dtype::E2M3, code), from_half(__nv_cvt_fp6_to_halfraw(code, __NV_E2M3))))
        << int{code};
  }
  for (std::uint8_t code = 0; code < 16; ++code) {
    ASSERT_TRUE(
        same(decode(Dtype::E2M1, code), from_half(__nv_cvt_fp4_to_halfraw(code, __NV_E2M1))))
        << int{code};
  }
  for (std::uint32_t code = 0; code < 65536; ++code) {
    __half_raw half;
    half.x = static_cast<std::uint16_t>(code);
    ASSERT_TRUE(same(decode(Dtype::F16, code), from_half(half))) << code;
    __nv_bfloat16_raw bf16;
    bf16.x = static_cast<std::uint16_t>(code);
    ASSERT_TRUE(
        same(decode(Dtype::BF16, code), static_cast<double>(__bfloat162float(__nv_bfloat16(bf16)))))
        << code;
  }
}

TEST(FormatsCuda, FloatsEncodeAlike) {
  over_floats([](float x) {
    const bool nan = std::isnan(x);
    // Signs and payloads of NaN are the implementations' own; elsewhere every bit counts.
    const std::uint8_t e4m3 = __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3);
    const std::uint8_t e5m2 = __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2);
    if (nan) {
      ASSERT_TRUE(std::isnan(float_from_e4m3(e4m3)) && std::isnan(float_from_e5m2(e5m2)));
      ASSERT_TRUE(std::isnan(float_from_e4m3(e4m3_from_float(x, Overflow::Saturate))));
    } else {
      ASSERT_EQ(e4m3_from_float(x, Overflow::Infinity), e4m3) << x;
      ASSERT_EQ(e5m2_from_float(x, Overflow::Infinity), e5m2) << x;
      ASSERT_EQ(f16_from_float(x), half_bits(__float2half_rn(x))) << x;
      ASSERT_EQ(bf16_from_float(x), bf16_bits(__float2bfloat16_rn(x))) << x;
    }
    ASSERT_EQ(e4m3_from_float(x, Overflow::Saturate) & 0x7F,
              __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3) & 0x7F)
        << x;
    ASSERT_EQ(e5m2_from_float(x, Overflow::Saturate) & (nan ? 0x7C : 0xFF),
              __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2) & (nan ? 0x7C : 0xFF))
        << x;
    const auto value = static_cast<double>(x);
    ASSERT_EQ(encode(Dtype::E3M2, value), __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest))
        << x;
    ASSERT_EQ(encode(Dtype::E2M3, value), __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest))
        << x;
    ASSERT_EQ(e2m1_from_float(x), __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest)) << x;
  });
}

TEST(FormatsCuda, ScalesEncodeAlike) {
  over_floats([](float x) {
    const auto value = static_cast<double>(x);
    for (const bool saturate : {false, true}) {
      for (const bool up : {false, true}) {
        const Conversion conversion{.rounding = up ? Rounding::Up : Rounding::TowardZero,
                                    .overflow = saturate ? Overflow::Saturate : Overflow::Infinity};
        ASSERT_EQ(encode(Dtype::E8M0, value, conversion),
                  __nv_cvt_float_to_e8m0(x, saturate ? __NV_SATFINITE : __NV_NOSAT,
                                         up ? cudaRoundPosInf : cudaRoundZero))
            << x << " " << saturate << up;
      }
    }
  });
}

// From double in one step: the toolkit has it for the 8, 6 and 4-bit formats and for bf16 and f16.
TEST(FormatsCuda, DoublesEncodeAlike) {
  const Rng rng{.seed = 4, .stream = 0};
  for (std::uint64_t i = 0; i < 400000; ++i) {
    const std::uint64_t field = 1023 - 60 + rng.bits(2 * i) % 90;
    std::uint64_t bits = (rng.bits(2 * i) & (std::uint64_t{1} << 63)) | (field << 52);
    bits |= rng.bits(2 * i + 1) & 0xFFE0000000000u;         // near the grids of the formats
    if (i % 3 != 0) bits |= i % 3 == 1 ? 1u : 0xFFFFFFFFu;  // just beside a tie
    const double x = std::bit_cast<double>(bits);
    ASSERT_EQ(encode(Dtype::E4M3, x), __nv_cvt_double_to_fp8(x, __NV_NOSAT, __NV_E4M3)) << x;
    ASSERT_EQ(encode(Dtype::E5M2, x), __nv_cvt_double_to_fp8(x, __NV_NOSAT, __NV_E5M2)) << x;
    ASSERT_EQ(encode(Dtype::E3M2, x), __nv_cvt_double_to_fp6(x, __NV_E3M2, cudaRoundNearest)) << x;
    ASSERT_EQ(encode(Dtype::E2M3, x), __nv_cvt_double_to_fp6(x, __NV_E2M3, cudaRoundNearest)) << x;
    ASSERT_EQ(encode(Dtype::E2M1, x), __nv_cvt_double_to_fp4(x, __NV_E2M1, cudaRoundNearest)) << x;
    ASSERT_EQ(encode(Dtype::F16, x), half_bits(__double2half(x))) << x;
    ASSERT_EQ(encode(Dtype::BF16, x), bf16_bits(__double2bfloat16(x))) << x;
  }
}

#endif

}  // namespace
}  // namespace parity
