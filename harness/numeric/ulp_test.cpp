#include "harness/numeric/ulp.hpp"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>

namespace parity {
namespace {

constexpr Dtype kSmall[] = {Dtype::BF16, Dtype::F16,  Dtype::E4M3, Dtype::E5M2,
                            Dtype::E8M0, Dtype::E3M2, Dtype::E2M3, Dtype::E2M1};

std::uint64_t f32(float x) { return std::bit_cast<std::uint32_t>(x); }

// Over all codes: rank orders values as the numbers do, and neighbours in value are one apart.
TEST(Ulp, RankIsMonotone) {
  for (const Dtype dtype : kSmall) {
    const std::uint64_t codes = std::uint64_t{1} << format(dtype).bits;
    const std::uint64_t sign = codes / 2;
    for (std::uint64_t code = 0; code + 1 < codes; ++code) {
      if (dtype != Dtype::E8M0 && code + 1 == sign)
        continue;  // from the largest positive code to -0
      const double value = decode(dtype, code);
      const double next = decode(dtype, code + 1);
      if (std::isnan(value) || std::isnan(next)) continue;
      ASSERT_EQ(value < next, ulp_rank(dtype, code) < ulp_rank(dtype, code + 1))
          << name(dtype) << code;
      ASSERT_EQ(ulp_distance(dtype, code, code + 1), 1) << name(dtype) << code;
      ASSERT_EQ(ulp_distance(dtype, code + 1, code), 1) << name(dtype) << code;
    }
  }
}

TEST(Ulp, AcrossZero) {
  const std::uint64_t tiny = f32(0x1p-149f);
  const std::uint64_t minus_tiny = f32(-0x1p-149f);
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(0.0f), f32(-0.0f)), 0);
  EXPECT_EQ(ulp_distance(Dtype::F32, tiny, minus_tiny), 2);
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(0.0f), f32(-0.0f), ZeroSign::Distinct), 1);
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(-0.0f), minus_tiny, ZeroSign::Distinct), 1);
  EXPECT_EQ(ulp_distance(Dtype::F32, tiny, minus_tiny, ZeroSign::Distinct), 3);
  EXPECT_EQ(ulp_distance(Dtype::F64, 0, std::bit_cast<std::uint64_t>(-0.0)), 0);
  EXPECT_EQ(ulp_distance(Dtype::E2M1, 1, 9), 2);  // 0.5 and -0.5
}

TEST(Ulp, AcrossBinadesSubnormalsAndInfinity) {
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(1.0f), f32(std::nextafter(1.0f, 0.0f))), 1);
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(1.0f), f32(2.0f)), 1 << 23);
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(0x1p-126f), f32(0x1p-126f - 0x1p-149f)), 1);
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(0x1.FFFFFEp127f), f32(HUGE_VALF)), 1);
  EXPECT_EQ(ulp_distance(Dtype::F32, f32(HUGE_VALF), f32(-HUGE_VALF)), 0xFF000000ll);
  EXPECT_EQ(ulp_distance(Dtype::F64, std::bit_cast<std::uint64_t>(HUGE_VAL),
                         std::bit_cast<std::uint64_t>(-HUGE_VAL)),
            kUlpInfinite - 1);
  EXPECT_EQ(ulp_distance(Dtype::TF32, f32(1.0f), f32(1.0f + 0x1p-9f)), 2);
}

TEST(Ulp, NanHasNoPlace) {
  EXPECT_EQ(ulp_distance(Dtype::BF16, 0x7FC0, 0xFFFF), 0);
  EXPECT_EQ(ulp_distance(Dtype::BF16, 0x7FC0, 0x3F80), kUlpInfinite);
  EXPECT_EQ(ulp_distance(Dtype::E4M3, 0x7E, 0x7F), kUlpInfinite);
  EXPECT_EQ(ulp_distance(Dtype::E2M1, 7, 15), 14);
}

TEST(Ulp, Integers) {
  EXPECT_EQ(ulp_distance(Dtype::I8, 0xFF, 1), 2);
  EXPECT_EQ(ulp_distance(Dtype::U8, 0xFF, 1), 254);
  EXPECT_EQ(ulp_distance(Dtype::I64, 0x8000000000000000u, 0x7FFFFFFFFFFFFFFFu), kUlpInfinite - 1);
  EXPECT_EQ(ulp_distance(Dtype::Bool, 1, 2), 0);
}

TEST(Ulp, SizeIsTheGapAbove) {
  for (const Dtype dtype : kSmall) {
    for (std::uint64_t code = 0; code < encode(dtype, format(dtype).max_finite); ++code) {
      const double value = decode(dtype, code);
      const double gap = decode(dtype, code + 1) - value;
      ASSERT_EQ(ulp(dtype, value), gap) << name(dtype) << " " << value;
      ASSERT_EQ(ulp(dtype, -value), gap) << name(dtype) << " " << value;
    }
  }
  EXPECT_EQ(ulp(Dtype::F64, 1.0), 0x1p-52);
  EXPECT_EQ(ulp(Dtype::F64, 0.0), 0x1p-1074);
  EXPECT_EQ(ulp(Dtype::F32, 1e300), std::ldexp(1.0, std::ilogb(1e300) - 23));
  EXPECT_TRUE(std::isnan(ulp(Dtype::F32, HUGE_VAL)));
  EXPECT_EQ(ulp(Dtype::I32, 77), 1.0);
  EXPECT_EQ(ulp_error(Dtype::BF16, 1.0, 1.0 + 0x1p-8), 0.5);
}

TEST(Ulp, Buckets) {
  EXPECT_EQ(log2_ulp_bucket(0), 0);
  EXPECT_EQ(log2_ulp_bucket(1), 1);
  EXPECT_EQ(log2_ulp_bucket(2), 2);
  EXPECT_EQ(log2_ulp_bucket(3), 2);
  EXPECT_EQ(log2_ulp_bucket(4), 3);
  EXPECT_EQ(log2_ulp_bucket(~std::uint64_t{0}), 64);
}

}  // namespace
}  // namespace parity
