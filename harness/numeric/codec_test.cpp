// encode and decode over all codes, against their definition: the nearest of the two neighbours,
// not another encoder.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
#include <limits>
#include <stdexcept>
#include <vector>

#include "harness/dtype.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kSmallFloats = {Dtype::BF16, Dtype::F16,  Dtype::E4M3, Dtype::E5M2,
                                     Dtype::E3M2, Dtype::E2M3, Dtype::E2M1};

std::uint64_t sign_of(Dtype dtype) { return std::uint64_t{1} << (format(dtype).bits - 1); }
std::uint64_t largest_code(Dtype dtype) { return encode(dtype, format(dtype).max_finite); }

TEST(Codec, EveryFiniteCodeComesBack) {
  for (const Dtype dtype : kSmallFloats) {
    for (std::uint64_t code = 0; code < 2 * sign_of(dtype); ++code) {
      const double value = decode(dtype, code);
      if (std::isnan(value)) continue;
      for (const Rounding rounding : {Rounding::NearestEven, Rounding::TowardZero, Rounding::Up}) {
        ASSERT_EQ(encode(dtype, value, rounding), code) << name(dtype) << " " << value;
      }
    }
  }
}

// Between all neighbours of a format: the tie, its two sides, and the ends of the interval, in
// every mode and both signs.
TEST(Codec, EveryIntervalRoundsToTheRightEnd) {
  for (const Dtype dtype : kSmallFloats) {
    const std::uint64_t sign = sign_of(dtype);
    for (std::uint64_t code = 0; code < largest_code(dtype); ++code) {
      const double lower = decode(dtype, code);
      const double upper = decode(dtype, code + 1);
      const double middle = lower + (upper - lower) / 2;
      const std::uint64_t even = code % 2 == 0 ? code : code + 1;
      const struct {
        double value;
        std::uint64_t nearest;
      } points[] = {{std::nextafter(lower, upper), code},
                    {std::nextafter(middle, lower), code},
                    {middle, even},
                    {std::nextafter(middle, upper), code + 1},
                    {std::nextafter(upper, lower), code + 1}};
      for (const auto& point : points) {
        ASSERT_EQ(encode(dtype, point.value), point.nearest) << name(dtype) << " " << point.value;
        ASSERT_EQ(encode(dtype, -point.value), point.nearest | sign)
            << name(dtype) << " " << -point.value;
        ASSERT_EQ(encode(dtype, point.value, Rounding::TowardZero), code);
        ASSERT_EQ(encode(dtype, -point.value, Rounding::TowardZero), code | sign);
        ASSERT_EQ(encode(dtype, point.value, Rounding::Up), code + 1);
        ASSERT_EQ(encode(dtype, -point.value, Rounding::Up), code | sign);
        ASSERT_EQ(round_to(dtype, point.value), decode(dtype, point.nearest));
      }
    }
  }
}

TEST(Codec, BeyondTheLargestValue) {
  for (const Dtype dtype : kSmallFloats) {
    const Format& f = format(dtype);
    const std::uint64_t largest = largest_code(dtype);
    const double step = f.max_finite - decode(dtype, largest - 1);
    const double tie =
        f.max_finite + step / 2;  // between the largest value and what would be the next
    const bool largest_is_even = largest % 2 == 0;
    const bool has_neither = !f.has_inf && !f.has_nan;
    const Conversion saturate{.overflow = Overflow::Saturate};
    for (const double sign : {1.0, -1.0}) {
      EXPECT_EQ(round_to(dtype, sign * std::nextafter(tie, 0)), sign * f.max_finite) << f.name;
      for (const double value : {tie, std::nextafter(tie, kInf), 2 * f.max_finite, kInf}) {
        const double rounded = round_to(dtype, sign * value);
        if (has_neither || (value == tie && largest_is_even)) {
          EXPECT_EQ(rounded, sign * f.max_finite) << f.name << " " << value;
        } else if (f.has_inf) {
          EXPECT_EQ(rounded, sign * kInf) << f.name << " " << value;
        } else {
          EXPECT_TRUE(std::isnan(rounded)) << f.name << " " << value;
        }
        EXPECT_EQ(round_to(dtype, sign * value, saturate), sign * f.max_finite)
            << f.name << " " << value;
      }
      EXPECT_EQ(round_to(dtype, sign * 2 * f.max_finite, Rounding::TowardZero),
                sign * f.max_finite);
    }
    EXPECT_EQ(round_to(dtype, -2 * f.max_finite, Rounding::Up), -f.max_finite);
  }
}

TEST(Codec, NanKeepsItsSignOrHasNoCode) {
  EXPECT_EQ(encode(Dtype::F32, kNan), 0x7FC00000u);
  EXPECT_EQ(encode(Dtype::TF32, kNan), 0x7FC00000u);
  EXPECT_EQ(encode(Dtype::BF16, -kNan), 0xFFC0u);
  EXPECT_EQ(encode(Dtype::F16, kNan), 0x7E00u);
  EXPECT_EQ(encode(Dtype::E4M3, -kNan), 0xFFu);
  EXPECT_EQ(encode(Dtype::E5M2, kNan), 0x7Fu);
  EXPECT_EQ(encode(Dtype::E8M0, -kNan), 0xFFu);
  for (const Dtype dtype : {Dtype::E2M1, Dtype::E2M3, Dtype::E3M2}) {
    EXPECT_EQ(decode(dtype, encode(dtype, -kNan)), format(dtype).max_finite);
  }
  EXPECT_THROW((void)encode(Dtype::I32, kNan), std::domain_error);
}

// f32 against the narrowing of the hardware: every exponent of f64 near the range of f32, fractions
// at and around the ties.
TEST(Codec, F32IsTheHardwaresNarrowing) {
  const Rng rng{.seed = 1, .stream = 0};
  std::uint64_t draw = 0;
  for (std::uint64_t field = 1023 - 160; field <= 1023 + 130; ++field) {
    for (int i = 0; i < 400; ++i) {
      std::uint64_t bits = (field << 52) | (rng.bits(draw++) >> 12);
      if (i % 4 == 1) bits = (bits & ~0x1FFFFFFFu) | 0x10000000u;  // the tie of a normal f32
      if (i % 4 == 2) bits &= ~std::uint64_t{0x1FFFFFFF};
      const double value = std::bit_cast<double>(bits | (rng.bits(draw++) << 63));
      const auto expected = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      ASSERT_EQ(encode(Dtype::F32, value), expected) << value;
      ASSERT_EQ(round_to(Dtype::F32, value), static_cast<double>(static_cast<float>(value)));
    }
  }
}

TEST(Codec, Tf32KeepsTenBitsOfF32) {
  EXPECT_EQ(round_to(Dtype::TF32, 1 + 0x1p-11), 1.0);  // tie to even
  EXPECT_EQ(round_to(Dtype::TF32, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
  EXPECT_EQ(round_to(Dtype::TF32, 1 + 0x1.8p-10), 1 + 0x1p-9);
  EXPECT_EQ(round_to(Dtype::TF32, 1 + 0x1.8p-10, Rounding::TowardZero), 1 + 0x1p-10);
  EXPECT_EQ(encode(Dtype::TF32, 1 + 0x1p-10) & 0x1FFFu, 0u);
  EXPECT_EQ(round_to(Dtype::TF32, 0x1p-136), 0x1p-136);
  EXPECT_EQ(round_to(Dtype::TF32, 0x1p-137), 0.0);  // half the smallest subnormal
  EXPECT_EQ(round_to(Dtype::TF32, 0x1.FFFp127), kInf);
}

TEST(Codec, E8m0TakesThePowerOfTwo) {
  for (std::uint64_t code = 0; code <= 0xFE; ++code) {
    const double value = decode(Dtype::E8M0, code);
    EXPECT_EQ(value, std::ldexp(1.0, static_cast<int>(code) - 127));
    EXPECT_EQ(encode(Dtype::E8M0, value), code);
    EXPECT_EQ(encode(Dtype::E8M0, -value), code);  // no sign
    EXPECT_EQ(encode(Dtype::E8M0, std::nextafter(1.5 * value, 0)), code);
    if (code < 0xFE) {
      EXPECT_EQ(encode(Dtype::E8M0, 1.5 * value),
                code + 1);  // a tie: no even neighbour, the larger one
      EXPECT_EQ(encode(Dtype::E8M0, std::nextafter(value, kInf), Rounding::Up), code + 1);
    }
    EXPECT_EQ(encode(Dtype::E8M0, 1.999 * value, Rounding::TowardZero), code);
  }
  EXPECT_EQ(encode(Dtype::E8M0, 0.0), 0u);
  EXPECT_EQ(encode(Dtype::E8M0, 1e-300, Rounding::Up), 0u);
  EXPECT_EQ(encode(Dtype::E8M0, 0x1.8p127), 0xFFu);
  EXPECT_EQ(encode(Dtype::E8M0, 0x1.8p127, Conversion{.overflow = Overflow::Saturate}), 0xFEu);
  EXPECT_EQ(encode(Dtype::E8M0, kInf), 0xFFu);
}

// Rounding through f32 moves a value onto a tie that it did not lie on.
TEST(Codec, TwoRoundingsAreNotOne) {
  const double above_tie = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(round_to(Dtype::BF16, above_tie), 1 + 0x1p-7);
  EXPECT_EQ(round_to(Dtype::BF16, round_to(Dtype::F32, above_tie)), 1.0);
  const double fp4 = 2.5 + 0x1p-12;
  EXPECT_EQ(round_to(Dtype::E2M1, fp4), 3.0);
  EXPECT_EQ(round_to(Dtype::E2M1, round_to(Dtype::BF16, fp4)), 2.0);

  // As often as the arithmetic says: f32 lands on a bf16 tie with probability 2^-16, and then half
  // of them go wrong.
  const Rng rng{.seed = 2, .stream = 0};
  int different = 0;
  constexpr int kDraws = 1 << 22;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double value = 1 + rng.uniform01(i);
    different += round_to(Dtype::BF16, value) != round_to(Dtype::BF16, round_to(Dtype::F32, value));
  }
  EXPECT_GT(different, 10);  // 32 expected
  EXPECT_LT(different, 80);
}

// All 2^b random numbers on fractions of b bits: the neighbours only, and the one away from zero
// exactly as often as the fraction says, so the mean is exact.
TEST(Codec, StochasticIsUnbiased) {
  constexpr int kBits = 8;
  for (const Dtype dtype :
       {Dtype::BF16, Dtype::F16, Dtype::E4M3, Dtype::E5M2, Dtype::E2M1, Dtype::F32}) {
    for (const double start : {1.0, 1.5, format(dtype).min_normal, 0.0}) {
      const std::uint64_t code = encode(dtype, start);
      const double lower = decode(dtype, code);
      const double upper = decode(dtype, code + 1);
      for (int fraction = 0; fraction < (1 << kBits); fraction += 5) {
        const double value = lower + (upper - lower) * fraction / (1 << kBits);
        for (const double sign : {1.0, -1.0}) {
          int away = 0;
          for (std::uint32_t r = 0; r < (1u << kBits); ++r) {
            const Conversion conversion{.rounding = Rounding::Stochastic,
                                        .random_bits = r << (32 - kBits)};
            const double rounded = sign * round_to(dtype, sign * value, conversion);
            ASSERT_TRUE(rounded == lower || rounded == upper) << name(dtype) << " " << value;
            away += rounded == upper;
          }
          ASSERT_EQ(away, fraction) << name(dtype) << " " << value;
        }
      }
    }
  }
  EXPECT_THROW((void)encode(Dtype::BF16, 1.0, Rounding::Stochastic), std::invalid_argument);
}

TEST(Codec, StochasticFarBelowTheSmallestSubnormal) {
  const Conversion most{.rounding = Rounding::Stochastic, .random_bits = 0xFFFFFFFFu};
  EXPECT_EQ(round_to(Dtype::E4M3, 0x1p-40, most), 0x1p-9);  // 2^-31 of a step: one in 2^31
  EXPECT_EQ(round_to(Dtype::E4M3, 0x1p-42, most), 0.0);     // less than 32 bits can say
  EXPECT_EQ(round_to(Dtype::E4M3, 1e-300, most), 0.0);
  EXPECT_EQ(round_to(Dtype::E4M3, -0x1p-40, most), -0x1p-9);
}

TEST(Codec, IntegersRoundAndSaturate) {
  EXPECT_EQ(round_to(Dtype::I8, 2.5), 2.0);
  EXPECT_EQ(round_to(Dtype::I8, -3.5), -4.0);
  EXPECT_EQ(round_to(Dtype::I8, std::nextafter(0.5, 1)), 1.0);
  EXPECT_EQ(round_to(Dtype::I8, 0.5), 0.0);
  EXPECT_EQ(round_to(Dtype::I8, 1e-300, Rounding::Up), 1.0);
  EXPECT_EQ(round_to(Dtype::I8, -1.9, Rounding::TowardZero), -1.0);
  EXPECT_EQ(round_to(Dtype::I8, 1000), 127.0);
  EXPECT_EQ(round_to(Dtype::I8, -kInf), -128.0);
  EXPECT_EQ(round_to(Dtype::U8, -3), 0.0);
  EXPECT_EQ(encode(Dtype::I64, 1e300), 0x7FFFFFFFFFFFFFFFu);
  EXPECT_EQ(encode(Dtype::I64, -1e300), 0x8000000000000000u);
  EXPECT_EQ(encode(Dtype::I32, -1), 0xFFFFFFFFu);
  EXPECT_EQ(encode(Dtype::Bool, 0.25), 1u);
  EXPECT_EQ(decode(Dtype::I16, 0xFFFE), -2.0);
}

// Runs of elements at odd places, in every format, against one code at a time; what lies around a
// run stays.
TEST(Codec, RunsAreElementsOneByOne) {
  const Rng rng{.seed = 3, .stream = 0};
  for (int d = 0; d < kDtypes; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    constexpr std::int64_t kElements = 37;
    for (const std::int64_t first : {0, 1, 2, 5}) {
      for (const std::int64_t size : {0, 1, 2, 7, 30}) {
        std::vector<double> values(static_cast<std::size_t>(size));
        rng.fill_normal(static_cast<std::uint64_t>(64 * d), values);
        std::vector<std::byte> bytes(bytes_for(dtype, kElements), std::byte{0x33});
        const std::vector<std::byte> before = bytes;
        narrow(dtype, values, first, bytes.data());
        for (std::int64_t i = 0; i < kElements; ++i) {
          const bool inside = i >= first && i < first + size;
          const std::uint64_t expected =
              inside ? encode(dtype, values[static_cast<std::size_t>(i - first)])
                     : load_code(dtype, before.data(), i);
          ASSERT_EQ(load_code(dtype, bytes.data(), i), expected)
              << name(dtype) << " " << first << "+" << size;
        }
        std::vector<double> back(values.size());
        widen(dtype, bytes.data(), first, back);
        for (std::size_t i = 0; i < back.size(); ++i) {
          const double expected = round_to(dtype, values[i]);
          ASSERT_EQ(std::bit_cast<std::uint64_t>(back[i]), std::bit_cast<std::uint64_t>(expected))
              << name(dtype);
        }
      }
    }
  }
}

}  // namespace
}  // namespace parity
