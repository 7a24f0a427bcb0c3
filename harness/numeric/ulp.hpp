// Units in the last place, per format.
//
// The values of a format in ascending order, each with the next integer: the sign-magnitude code
// becomes a signed number, so that distances are right across zero, subnormals and binades. (The
// difference of raw codes makes -tiny and +tiny 2^31 apart.) NaN has no place in that order.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "harness/dtype.hpp"

namespace parity {

enum class ZeroSign : std::uint8_t {
  Ignored,  // +0 and -0 are one value
  Distinct  // -0 lies one below +0
};

// NaN on exactly one side; beyond every distance that is a number.
inline constexpr std::int64_t kUlpInfinite = std::numeric_limits<std::int64_t>::max();

// Place of a code in the order. Integers map to themselves, E8M0 (no sign) to its code.
[[nodiscard]] std::int64_t ulp_rank(Dtype dtype, std::uint64_t code,
                                    ZeroSign zero_sign = ZeroSign::Ignored);

// Representable values between two codes: 0 if equal or both NaN, kUlpInfinite if one is NaN.
// Infinity is the neighbour of the largest finite value. F64 and I64 distances of 2^63 and more are
// given as kUlpInfinite - 1.
[[nodiscard]] std::int64_t ulp_distance(Dtype dtype, std::uint64_t a, std::uint64_t b,
                                        ZeroSign zero_sign = ZeroSign::Ignored);

// Spacing of the format's values in the binade of |value|, the smallest subnormal at and around
// zero; 1 for integers. The exponent is not bounded above, so it is defined for every finite value.
// NaN for infinities and NaN.
[[nodiscard]] double ulp(Dtype dtype, double value);

// |got - truth| in ulps of the format at the truth. NaN if either is not finite.
[[nodiscard]] double ulp_error(Dtype dtype, double truth, double got);

// Histogram of log2 of the distance, both signs: the middle is equality, kUlpCentre + k holds
// 2^(k-1) <= got - want < 2^k ulp, kUlpCentre - k the same with got below want.
inline constexpr int kUlpCentre = 64;
inline constexpr int kUlpBuckets = 2 * kUlpCentre + 1;
using UlpHistogram = std::array<std::int64_t, kUlpBuckets>;

[[nodiscard]] constexpr int log2_ulp_bucket(std::uint64_t distance) {
  return static_cast<int>(std::bit_width(distance));
}

}  // namespace parity
