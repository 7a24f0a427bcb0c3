// Fast inline conversions between float and the narrow formats, for kernels and quantisers. Nearest
// even, one rounding, and the same codes as encode()/decode() of harness/dtype.hpp, which says what
// becomes of NaN and overflow. None depends on libm or on subnormal floats being honoured (DAZ,
// FTZ); all want the default rounding mode.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "harness/dtype.hpp"

namespace parity {
namespace formats_detail {

// |x| as f32 bits -> magnitude code of a format with that many fraction bits and that bias,
// unbounded above.
template <int kMantissaBits, int kBias>
[[nodiscard]] constexpr std::uint32_t magnitude(std::uint32_t abs_bits) {
  constexpr int kDropped = 23 - kMantissaBits;
  constexpr std::uint32_t kMinNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  if (abs_bits < kMinNormal && kBias != 127) {
    // Adding 2^23 smallest subnormals makes one of them the last bit of the sum, which the addition
    // then rounds to.
    constexpr auto kMagic = static_cast<std::uint32_t>(128 - kBias + kDropped) << 23;
    const float sum = std::bit_cast<float>(abs_bits) + std::bit_cast<float>(kMagic);
    return std::bit_cast<std::uint32_t>(sum) - kMagic;
  }
  const std::uint32_t odd = (abs_bits >> kDropped) & 1u;
  const std::uint32_t rounded = abs_bits + ((1u << (kDropped - 1)) - 1u) + odd;
  return (rounded >> kDropped) - (static_cast<std::uint32_t>(127 - kBias) << kMantissaBits);
}

// Magnitude code -> value, for finite codes.
[[nodiscard]] constexpr float small_value(std::uint32_t magnitude, int mantissa_bits, int bias) {
  const std::uint32_t fraction = magnitude & ((1u << mantissa_bits) - 1u);
  const auto field = static_cast<int>(magnitude >> mantissa_bits);
  const std::uint32_t significand = field == 0 ? fraction : fraction + (1u << mantissa_bits);
  const int exponent = (field == 0 ? 1 : field) - bias - mantissa_bits;
  const auto scale = std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
  return static_cast<float>(significand) * scale;
}

inline constexpr float kNan = std::bit_cast<float>(0x7FC00000u);
inline constexpr float kInfinity = std::bit_cast<float>(0x7F800000u);

template <std::size_t kCodes>
[[nodiscard]] constexpr std::array<float, kCodes> table(int mantissa_bits, int bias,
                                                        std::uint32_t infinity, std::uint32_t nan) {
  std::array<float, kCodes> values{};
  constexpr auto kSign = static_cast<std::uint32_t>(kCodes / 2);
  for (std::uint32_t code = 0; code < kCodes; ++code) {
    const std::uint32_t magnitude = code & (kSign - 1u);
    float value = small_value(magnitude, mantissa_bits, bias);
    if (magnitude >= nan) {
      value = kNan;
    } else if (magnitude >= infinity) {
      value = kInfinity;
    }
    values[code] = (code & kSign) != 0 ? -value : value;
  }
  return values;
}

inline constexpr std::uint32_t kNever = 0xFFFFFFFFu;
inline constexpr auto kE4m3 = table<256>(3, 7, kNever, 0x7F);
inline constexpr auto kE5m2 = table<256>(2, 15, 0x7C, 0x7D);
inline constexpr auto kE3m2 = table<64>(2, 3, kNever, kNever);
inline constexpr auto kE2m3 = table<64>(3, 1, kNever, kNever);
inline constexpr auto kE2m1 = table<16>(1, 1, kNever, kNever);

}  // namespace formats_detail

// ---- bf16, f16 ----

[[nodiscard]] constexpr float float_from_bf16(std::uint16_t code) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
}

[[nodiscard]] constexpr std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = ((bits >> 16) & 0x8000u) | 0x7FC0u;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

[[nodiscard]] constexpr float float_from_f16(std::uint16_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(code & 0x7FFFu) << 13;
  constexpr std::uint32_t kMinNormal = 113u << 23;  // 2^-14
  std::uint32_t bits = magnitude + (112u << 23);
  if (magnitude >= 0x0F800000u) {
    bits = magnitude | 0x7F800000u;
    if (bits > 0x7F800000u) bits |= 0x00400000u;  // quiet
  } else if (magnitude < 0x00800000u) {
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + kMinNormal) -
                                        std::bit_cast<float>(kMinNormal));
  }
  return std::bit_cast<float>(bits | sign);
}

[[nodiscard]] constexpr std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t abs_bits = bits & 0x7FFFFFFFu;
  if (abs_bits > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);
  std::uint32_t magnitude = formats_detail::magnitude<10, 15>(abs_bits);
  if (magnitude > 0x7C00u) magnitude = 0x7C00u;
  return static_cast<std::uint16_t>(sign | magnitude);
}

// ---- eight bits ----

[[nodiscard]] constexpr float float_from_e4m3(std::uint8_t code) {
  return formats_detail::kE4m3[code];
}

[[nodiscard]] constexpr float float_from_e5m2(std::uint8_t code) {
  return formats_detail::kE5m2[code];
}

[[nodiscard]] constexpr std::uint8_t e4m3_from_float(float value, Overflow overflow) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t abs_bits = bits & 0x7FFFFFFFu;
  std::uint32_t magnitude = formats_detail::magnitude<3, 7>(abs_bits);
  if (magnitude > 0x7Eu) {
    const bool nan = abs_bits > 0x7F800000u || overflow == Overflow::Infinity;
    magnitude = nan ? 0x7Fu : 0x7Eu;
  }
  return static_cast<std::uint8_t>(sign | magnitude);
}

[[nodiscard]] constexpr std::uint8_t e5m2_from_float(float value, Overflow overflow) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t abs_bits = bits & 0x7FFFFFFFu;
  std::uint32_t magnitude = formats_detail::magnitude<2, 15>(abs_bits);
  if (abs_bits > 0x7F800000u) {
    magnitude = 0x7Fu;
  } else if (magnitude > 0x7Bu) {
    magnitude = overflow == Overflow::Infinity ? 0x7Cu : 0x7Bu;
  }
  return static_cast<std::uint8_t>(sign | magnitude);
}

[[nodiscard]] constexpr float float_from_e8m0(std::uint8_t code) {
  if (code == 0xFF) return formats_detail::kNan;
  const std::uint32_t bits = code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23;
  return std::bit_cast<float>(bits);  // 2^-127 is a subnormal float
}

// ---- e2m1 ----

// NaN has no code; implementations differ in what they put there.
enum class E2m1Nan : std::uint8_t {
  Largest,   // +6, sign dropped: PTX `cvt.rn.satfinite.e2m1x2.f32` and the toolkit's host path
  BitTrick,  // what adding and shifting the bits of the NaN leaves: 1.5 for 0x7FC00000, 2 for
             // 0x7FFFFFFF, sign kept
  Zero       // +0
};
enum class E2m1NegativeZero : std::uint8_t {
  Keep,     // code 8
  Positive  // -0.0 gives code 0; negative values that round to zero give code 8 all the same
};
struct E2m1Policy {
  E2m1Nan nan = E2m1Nan::Largest;
  E2m1NegativeZero negative_zero = E2m1NegativeZero::Keep;
};

[[nodiscard]] constexpr float float_from_e2m1(std::uint8_t code) {
  return formats_detail::kE2m1[code & 0xFu];
}

// Nearest even as thresholds on |value|: ties go to the even code, everything above 5 to 6.
[[nodiscard]] constexpr std::uint8_t e2m1_from_float(float value, const E2m1Policy& policy = {}) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 28) & 8u;
  const std::uint32_t abs_bits = bits & 0x7FFFFFFFu;
  if (abs_bits > 0x7F800000u) {
    if (policy.nan == E2m1Nan::Zero) return 0;
    if (policy.nan == E2m1Nan::Largest) return 7;
    const std::uint32_t odd = (abs_bits >> 22) & 1u;
    return static_cast<std::uint8_t>((((abs_bits - (126u << 23) + 0x1FFFFFu + odd) >> 22) & 7u) |
                                     sign);
  }
  const auto a = std::bit_cast<float>(abs_bits);
  const auto above = [](bool passed) { return static_cast<std::uint32_t>(passed); };
  const std::uint32_t magnitude = above(a > 0.25f) + above(a >= 0.75f) + above(a > 1.25f) +
                                  above(a >= 1.75f) + above(a > 2.5f) + above(a >= 3.5f) +
                                  above(a > 5.0f);
  if (abs_bits == 0 && policy.negative_zero == E2m1NegativeZero::Positive) return 0;
  return static_cast<std::uint8_t>(sign | magnitude);
}

// Two codes a byte, as in every package: element 2i low, 2i + 1 high.
[[nodiscard]] constexpr std::uint8_t pack_e2m1(std::uint8_t even, std::uint8_t odd) {
  return static_cast<std::uint8_t>((even & 0xFu) | static_cast<unsigned>(odd << 4));
}

}  // namespace parity
