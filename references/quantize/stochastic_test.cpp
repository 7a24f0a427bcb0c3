// Stochastic rounding from named bits: thresholds, bias with a stated error probability, streams.
#include "references/quantize/stochastic.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"
#include "references/quantize/stream.hpp"

namespace parity::quantize {
namespace {

// Smallest random byte that rounds up; 256: none does.
int threshold(float x) {
  const std::uint8_t low = stochastic_e2m1(x, 0);
  for (int r = 1; r < 256; ++r)
    if (stochastic_e2m1(x, static_cast<std::uint8_t>(r)) != low) return r;
  return 256;
}

TEST(Stochastic, KnownThresholds) {
  const std::array<std::pair<float, int>, 6> known = {
      {{1.25F, 128}, {2.5F, 128}, {5.0F, 128}, {0.3F, 103}, {0.1F, 205}, {5.9F, 13}}};
  for (const auto& [x, r] : known) {
    EXPECT_EQ(threshold(x), r) << x;
    EXPECT_EQ(threshold(-x), r) << -x;
  }
  for (int code = 0; code < 16; ++code)
    EXPECT_EQ(threshold(float_from_e2m1(static_cast<std::uint8_t>(code))), 256) << code;
}

TEST(Stochastic, CornersAndMonotony) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(stochastic_e2m1(std::numeric_limits<float>::quiet_NaN(), 200), 7);
  EXPECT_EQ(stochastic_e2m1(inf, 0), 7);
  EXPECT_EQ(stochastic_e2m1(-inf, 0), 15);
  EXPECT_EQ(stochastic_e2m1(-1e30F, 255), 15);
  EXPECT_EQ(stochastic_e2m1(-0.0F, 255), 8);
  EXPECT_EQ(stochastic_e2m1(-1e-30F, 255), 8);
  for (int i = 0; i < 4096; ++i) {
    const float x = static_cast<float>(i) / 512;
    const float exact = std::fmin(x, 6.0F);
    for (int r = 0; r < 256; r += 15) {
      const float q = float_from_e2m1(stochastic_e2m1(x, static_cast<std::uint8_t>(r)));
      const float step = exact < 2 ? 0.5F : exact < 4 ? 1 : 2;
      EXPECT_LT(std::fabs(q - exact), step) << x << " " << r;
    }
  }
}

// The bit form of the instruction: 8 random bits under the kept mantissa.
TEST(Stochastic, EqualsTheIntegerForm) {
  const auto by_bits = [](float x, unsigned r) {
    const float a = std::fabs(x);
    const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 8 : 0);
    if (a >= 6) return static_cast<std::uint8_t>(sign | 7);
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(a);
    if (a >= 1) {
      const std::uint32_t m = (bits & 0x7FFFFF) | 0x800000;
      const auto exponent = static_cast<std::uint32_t>((bits >> 23) - 127);
      const std::uint32_t kept = (m >> 22) + (((m >> 14 & 255) + r) >> 8);
      return static_cast<std::uint8_t>(sign | (((exponent + 1) << 1) + kept - 2));
    }
    const double t = static_cast<double>(a) * 2;
    const auto d = static_cast<unsigned>(std::floor(256 * (t - std::floor(t))));
    return static_cast<std::uint8_t>(sign | (static_cast<unsigned>(t) + ((d + r) >> 8)));
  };
  const Rng rng{11, 0};
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const std::uint64_t draw = rng.bits(i);
    // Exponents of 2^-12 to 2^3, any mantissa, either sign.
    const auto bits = static_cast<std::uint32_t>(
        (draw >> 63) << 31 | (115 + (draw >> 40) % 15) << 23 | (draw & 0x7FFFFF));
    const auto x = std::bit_cast<float>(bits);
    const auto r = static_cast<std::uint8_t>(draw >> 32);
    ASSERT_EQ(stochastic_e2m1(x, r), by_bits(x, r)) << std::hex << bits << " " << int{r};
  }
}

// On the grid of 256ths the rounding is unbiased: the number of steps up among n draws is binomial
// with p = k/256. 48 fractions of either sign; |z| > 6 has probability 2e-9 for one of them, 2e-7
// for the test (normal approximation; n p (1 - p) > 250).
TEST(Stochastic, UnbiasedOnThe256thGrid) {
  constexpr int kDraws = 65536;
  const std::vector<std::uint8_t> bytes =
      random_bytes({.seed = 7, .subsequence = subsequence_of("test", 0)}, kDraws);
  for (const float base : {0.0F, 1.0F, 3.0F}) {
    const float step = base < 2 ? 0.5F : 1;
    for (int k = 16; k < 256; k += 16) {
      for (const float sign : {1.0F, -1.0F}) {
        const float x = sign * (base + step * static_cast<float>(k) / 256);
        int up = 0;
        for (const std::uint8_t r : bytes)
          up += std::fabs(float_from_e2m1(stochastic_e2m1(x, r))) > base ? 1 : 0;
        const double p = k / 256.0;
        const double z = (up - kDraws * p) / std::sqrt(kDraws * p * (1 - p));
        EXPECT_LT(std::fabs(z), 6) << x;
      }
    }
  }
}

// Off that grid the bias is toward zero and below a 256th of a step, exactly: over all 256 bytes.
TEST(Stochastic, BiasIsBelowA256thOfAStep) {
  const Rng rng{3, 0};
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto x = static_cast<float>(rng.uniform(i, 0, 6));
    double mean = 0;
    for (int r = 0; r < 256; ++r)
      mean +=
          static_cast<double>(float_from_e2m1(stochastic_e2m1(x, static_cast<std::uint8_t>(r))));
    mean /= 256;
    const double step = x < 2 ? 0.5 : x < 4 ? 1 : 2;
    EXPECT_LE(mean, static_cast<double>(x));
    EXPECT_GT(mean, static_cast<double>(x) - step / 256);
  }
}

// Lanes of a word must not share their byte: P(both up) = p^2, not p. 4096 words of x = 1.25;
// |z| > 6 for each of 6 pairs, 1.2e-8 in all.
TEST(Stochastic, LanesAreIndependent) {
  const std::vector<std::uint8_t> bytes = random_bytes({.seed = 5}, 4 * 4096);
  for (int a = 0; a < 4; ++a) {
    for (int b = a + 1; b < 4; ++b) {
      int both = 0;
      for (std::size_t w = 0; w < 4096; ++w)
        both += bytes[4 * w + static_cast<std::size_t>(a)] >= 128 &&
                bytes[4 * w + static_cast<std::size_t>(b)] >= 128;
      const double z = (both - 1024) / std::sqrt(4096 * 0.25 * 0.75);
      EXPECT_LT(std::fabs(z), 6) << a << b;
    }
  }
}

TEST(Streams, AreFunctionsOfTheirNumbers) {
  const Stream stream{.seed = 9, .offset = 4, .subsequence = subsequence_of("rbits", 0)};
  const std::vector<std::uint8_t> bytes = random_bytes(stream, 100);
  EXPECT_EQ(random_bytes(stream, 100), bytes);  // a recompute
  Stream later = stream;
  later.offset += 2;
  const std::vector<std::uint8_t> tail = random_bytes(later, 68);  // blocks count 16 bytes
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), bytes.begin() + 32));
  // Philox4x32-10 at zero: the first word is 6627e8d5, little endian.
  EXPECT_EQ(random_bytes({}, 4), (std::vector<std::uint8_t>{0xd5, 0xe8, 0x27, 0x66}));
}

}  // namespace
}  // namespace parity::quantize
