// One rounding step from double to a code, for a layout known at compile time; behind encode() and
// narrow().
#pragma once

#include <bit>
#include <cstdint>

#include "harness/dtype.hpp"

namespace parity::rounding_detail {

struct Layout {
  int bits = 0;  // sign included
  int mantissa_bits = 0;
  int bias = 0;
  std::uint64_t largest = 0;   // magnitude code of the largest finite value
  std::uint64_t infinity = 0;  // magnitude code, 0: none
  std::uint64_t nan = 0;       // magnitude code that encode() emits, 0: none
};

inline constexpr Layout kF32{32, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000};
inline constexpr Layout kTf32{19, 10, 127, 0x3FBFF, 0x3FC00, 0x3FE00};  // the upper 19 bits
inline constexpr Layout kBf16{16, 7, 127, 0x7F7F, 0x7F80, 0x7FC0};
inline constexpr Layout kF16{16, 10, 15, 0x7BFF, 0x7C00, 0x7E00};
inline constexpr Layout kE4m3{8, 3, 7, 0x7E, 0, 0x7F};
inline constexpr Layout kE5m2{8, 2, 15, 0x7B, 0x7C, 0x7F};
inline constexpr Layout kE3m2{6, 2, 3, 0x1F, 0, 0};
inline constexpr Layout kE2m3{6, 3, 1, 0x1F, 0, 0};
inline constexpr Layout kE2m1{4, 1, 1, 0x7, 0, 0};

// Whether a magnitude of `kept` units plus rest / 2^dropped of a unit goes to kept + 1.
constexpr bool rounds_away(std::uint64_t kept, std::uint64_t rest, int dropped, bool negative,
                           const Conversion& conversion) {
  switch (conversion.rounding) {
    case Rounding::NearestEven: {
      // rest < 2^53, so from 54 dropped bits on it is below half; 63 keeps the shift defined.
      const std::uint64_t half = std::uint64_t{1} << (dropped > 63 ? 62 : dropped - 1);
      return rest > half || (rest == half && (kept & 1u) != 0);
    }
    case Rounding::TowardZero:
      return false;
    case Rounding::Up:
      return rest != 0 && !negative;
    case Rounding::Stochastic: {
      std::uint64_t fraction = 0;  // floor(rest / 2^dropped * 2^32)
      if (dropped <= 32) {
        fraction = rest << (32 - dropped);
      } else if (dropped < 96) {
        fraction = rest >> (dropped - 32);
      }
      return fraction + conversion.random_bits > 0xFFFFFFFFu;
    }
  }
  return false;
}

template <Layout kLayout>
[[nodiscard]] constexpr std::uint64_t encode(double value, const Conversion& conversion) {
  constexpr int kM = kLayout.mantissa_bits;
  constexpr int kMinExponent = 1 - kLayout.bias;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const std::uint64_t sign = (bits >> 63) << (kLayout.bits - 1);
  const std::uint64_t abs_bits = bits & 0x7FFFFFFFFFFFFFFFu;
  constexpr std::uint64_t kInfinity = 0x7FF0000000000000u;

  if (abs_bits > kInfinity) return kLayout.nan != 0 ? sign | kLayout.nan : kLayout.largest;
  const std::uint64_t beyond = kLayout.infinity != 0 ? kLayout.infinity
                               : kLayout.nan != 0    ? kLayout.nan
                                                     : kLayout.largest;
  const std::uint64_t overflowed =
      sign | (conversion.overflow == Overflow::Saturate ? kLayout.largest : beyond);
  if (abs_bits == kInfinity) return overflowed;

  const auto field = static_cast<int>(abs_bits >> 52);
  const std::uint64_t fraction = abs_bits & 0xFFFFFFFFFFFFFu;
  const std::uint64_t significand = field == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
  const int exponent =
      (field == 0 ? 1 : field) - 1023;  // |value| = significand * 2^(exponent - 52)

  // Both subnormals and normals are kept * 2^(unit), and the code is linear in kept within a
  // binade, so a carry out of the fraction runs into the exponent field by itself.
  const int binade = exponent > kMinExponent ? exponent : kMinExponent;
  const int dropped = binade - kM - (exponent - 52);
  const std::uint64_t kept = dropped > 63 ? 0 : significand >> dropped;
  const std::uint64_t rest = dropped > 63 ? significand : significand - (kept << dropped);
  const std::uint64_t magnitude =
      (static_cast<std::uint64_t>(binade - kMinExponent) << kM) + kept +
      static_cast<std::uint64_t>(rounds_away(kept, rest, dropped, negative, conversion));
  if (magnitude <= kLayout.largest) return sign | magnitude;
  const bool stays = conversion.rounding == Rounding::TowardZero ||
                     (conversion.rounding == Rounding::Up && negative);
  return stays ? sign | kLayout.largest : overflowed;
}

// Exponent-only scale: code c is 2^(c - 127), 0xFF is NaN.
[[nodiscard]] constexpr std::uint64_t encode_e8m0(double value, const Conversion& conversion) {
  const std::uint64_t abs_bits = std::bit_cast<std::uint64_t>(value) & 0x7FFFFFFFFFFFFFFFu;
  constexpr std::uint64_t kInfinity = 0x7FF0000000000000u;
  constexpr std::uint64_t kLargest = 0xFE;
  constexpr std::uint64_t kNan = 0xFF;
  const std::uint64_t overflowed = conversion.overflow == Overflow::Saturate ? kLargest : kNan;
  if (abs_bits > kInfinity) return kNan;
  if (abs_bits == kInfinity) return overflowed;
  const int code = static_cast<int>(abs_bits >> 52) - 1023 + 127;
  if (code < 0) return 0;  // below 2^-127, the smallest value there is
  // One digit is kept and it is odd, so a tie goes away from zero: what rounds_away does with kept
  // = 1.
  const std::uint64_t rest = abs_bits & 0xFFFFFFFFFFFFFu;
  const auto rounded = static_cast<std::uint64_t>(code) +
                       static_cast<std::uint64_t>(rounds_away(1, rest, 52, false, conversion));
  if (rounded <= kLargest) return rounded;
  return conversion.rounding == Rounding::TowardZero ? kLargest : overflowed;
}

}  // namespace parity::rounding_detail
