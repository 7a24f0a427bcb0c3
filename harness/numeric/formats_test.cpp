// The inline float paths against encode() and decode().
#include "harness/numeric/formats.hpp"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace parity {
namespace {

// Every exponent and sign with fractions at ends, ties of all formats and their neighbours, and a
// stride over all patterns.
std::vector<float> floats() {
  std::vector<float> values;
  for (std::uint32_t top = 0; top < 512; ++top) {
    for (std::uint32_t lead = 0; lead < 16; ++lead) {
      for (int bit = 0; bit < 20; ++bit) {
        for (const std::uint32_t low : {0u, 1u << bit, (1u << bit) - 1u, (1u << bit) + 1u}) {
          values.push_back(std::bit_cast<float>((top << 23) | (lead << 19) | (low & 0x7FFFFu)));
        }
      }
    }
  }
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4093) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

TEST(Formats, FloatPathsGiveTheSameCodes) {
  const Conversion saturate{.overflow = Overflow::Saturate};
  for (const float x : floats()) {
    const auto value = static_cast<double>(x);
    ASSERT_EQ(bf16_from_float(x), encode(Dtype::BF16, value)) << x;
    ASSERT_EQ(f16_from_float(x), encode(Dtype::F16, value)) << x;
    ASSERT_EQ(e4m3_from_float(x, Overflow::Infinity), encode(Dtype::E4M3, value)) << x;
    ASSERT_EQ(e4m3_from_float(x, Overflow::Saturate), encode(Dtype::E4M3, value, saturate)) << x;
    ASSERT_EQ(e5m2_from_float(x, Overflow::Infinity), encode(Dtype::E5M2, value)) << x;
    ASSERT_EQ(e5m2_from_float(x, Overflow::Saturate), encode(Dtype::E5M2, value, saturate)) << x;
    ASSERT_EQ(e2m1_from_float(x), encode(Dtype::E2M1, value)) << x;
  }
}

TEST(Formats, EveryCodeBecomesItsFloat) {
  const auto same = [](float a, double b) {
    return (std::isnan(a) && std::isnan(b) && std::signbit(a) == std::signbit(b)) ||
           std::bit_cast<std::uint64_t>(static_cast<double>(a)) == std::bit_cast<std::uint64_t>(b);
  };
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    const bool negative = (code & 0x8000u) != 0;
    const auto field = static_cast<int>((code >> 10) & 0x1Fu);
    const double fraction = static_cast<double>(code & 0x3FFu) / 1024;
    double expected = field == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, field - 15);
    if (field == 31) expected = fraction == 0 ? HUGE_VAL : std::nan("");
    ASSERT_TRUE(same(float_from_f16(half), std::copysign(expected, negative ? -1.0 : 1.0))) << code;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(float_from_bf16(half)), code << 16);
  }
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    ASSERT_TRUE(same(float_from_e4m3(c), decode(Dtype::E4M3, code))) << code;
    ASSERT_TRUE(same(float_from_e5m2(c), decode(Dtype::E5M2, code))) << code;
    ASSERT_TRUE(same(float_from_e8m0(c), decode(Dtype::E8M0, code))) << code;
  }
  // e5m2 is the upper byte of f16.
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float wide = float_from_f16(static_cast<std::uint16_t>(code << 8));
    ASSERT_TRUE(same(float_from_e5m2(static_cast<std::uint8_t>(code)), static_cast<double>(wide)))
        << code;
  }
}

TEST(Formats, SmallTablesAreTheStandards) {
  const float e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(float_from_e2m1(code), e2m1[code]);
    EXPECT_EQ(float_from_e2m1(static_cast<std::uint8_t>(code | 8)), -e2m1[code]);
  }
  EXPECT_TRUE(std::signbit(float_from_e2m1(8)));
  EXPECT_EQ(float_from_e4m3(0x7E), 448.0f);
  EXPECT_EQ(float_from_e4m3(0x01), 0x1p-9f);
  EXPECT_EQ(decode(Dtype::E3M2, 0x1F), 28);
  EXPECT_EQ(decode(Dtype::E3M2, 0x01), 0.0625);
  EXPECT_EQ(decode(Dtype::E2M3, 0x3F), -7.5);
  EXPECT_EQ(decode(Dtype::E2M3, 0x01), 0.125);
}

TEST(Formats, E2m1TiesLandOnEvenCodes) {
  const struct {
    float value;
    std::uint8_t code;
  } ties[] = {{0.25f, 0}, {0.75f, 2}, {1.25f, 2}, {1.75f, 4}, {2.5f, 4}, {3.5f, 6}, {5.0f, 6}};
  for (const auto& tie : ties) {
    EXPECT_EQ(e2m1_from_float(tie.value), tie.code) << tie.value;
    EXPECT_EQ(e2m1_from_float(-tie.value), tie.code | 8) << tie.value;
  }
  EXPECT_EQ(e2m1_from_float(std::nextafter(5.0f, 6.0f)), 7);
  EXPECT_EQ(e2m1_from_float(HUGE_VALF), 7);
  EXPECT_EQ(e2m1_from_float(-HUGE_VALF), 15);
}

TEST(Formats, E2m1CornersFollowThePolicy) {
  const auto nan = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  for (const std::uint32_t bits :
       {0x7FC00000u, 0xFFC00000u, 0x7FFFFFFFu, 0x7FF00000u, 0xFFF00000u}) {
    EXPECT_EQ(e2m1_from_float(nan(bits)), 7);
    EXPECT_EQ(e2m1_from_float(nan(bits), {.nan = E2m1Nan::Zero}), 0);
  }
  const E2m1Policy trick{.nan = E2m1Nan::BitTrick};
  EXPECT_EQ(e2m1_from_float(nan(0x7FC00000u), trick), 3);
  EXPECT_EQ(e2m1_from_float(nan(0xFFC00000u), trick), 11);
  EXPECT_EQ(e2m1_from_float(nan(0x7FFFFFFFu), trick), 4);
  EXPECT_EQ(e2m1_from_float(nan(0x7FF00000u), trick), 4);
  EXPECT_EQ(e2m1_from_float(nan(0xFFF00000u), trick), 12);

  const E2m1Policy positive{.negative_zero = E2m1NegativeZero::Positive};
  EXPECT_EQ(e2m1_from_float(-0.0f), 8);
  EXPECT_EQ(e2m1_from_float(-0.0f, positive), 0);
  EXPECT_EQ(e2m1_from_float(-0.1f, positive), 8);
  EXPECT_EQ(e2m1_from_float(-0x1p-149f, positive), 8);
  EXPECT_EQ(pack_e2m1(3, 12), 0xC3);
}

}  // namespace
}  // namespace parity
