#include "harness/numeric/philox.hpp"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <thread>
#include <vector>

namespace parity {
namespace {

constexpr std::uint64_t kFrozenDigest = 5543747894130715017u;

// kat_vectors of Random123 1.14, "philox4x32 10".
TEST(Philox, KnownAnswers) {
  const std::uint32_t ones = 0xFFFFFFFFu;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu, 0x9B00DBD8u}));
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408F276Du, 0x41C83B0Eu, 0xA20BC7C6u, 0x6D5451FDu}));
  EXPECT_EQ(philox4x32_10({0x243F6A88u, 0x85A308D3u, 0x13198A2Eu, 0x03707344u},
                          {0xA4093822u, 0x299F31D0u}),
            (PhiloxCounter{0xD16CFE09u, 0x94FDCCEBu, 0x5001E420u, 0x24126EA1u}));
}

TEST(Philox, DrawsAreTheHalvesOfBlocks) {
  const Rng rng{.seed = 0, .stream = 0};
  EXPECT_EQ(rng.bits(0), 0xE169C58D6627E8D5u);
  EXPECT_EQ(rng.bits(1), 0x9B00DBD8BC57AC4Cu);
}

// The bits that goldens depend on: changed on purpose or not at all.
TEST(Philox, DistributionsAreFrozen) {
  const Rng rng{.seed = 42, .stream = 7};
  std::uint64_t digest = 0;
  const auto mix = [&digest](std::uint64_t bits) {
    digest = (digest ^ bits) * 0x9E3779B97F4A7C15u;
  };
  for (std::uint64_t i = 0; i < 10000; ++i) {
    mix(std::bit_cast<std::uint64_t>(rng.uniform01(i)));
    mix(std::bit_cast<std::uint64_t>(rng.uniform(i, -0.3, 1.7)));
    mix(std::bit_cast<std::uint64_t>(rng.normal(i)));
    mix(static_cast<std::uint64_t>(rng.integer(i, -5, 100)));
    mix(rng.split(i).bits(i));
  }
  EXPECT_EQ(digest, kFrozenDigest);
}

TEST(Philox, FillsAreTheSameDrawsFromAnyPlaceOnAnyThread) {
  const Rng rng{.seed = 9, .stream = 3};
  constexpr std::size_t kSize = 1001;
  std::vector<double> normal(kSize), uniform(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    normal[i] = rng.normal(i);
    uniform[i] = rng.uniform01(i);
  }
  for (const std::size_t threads : {1u, 2u, 3u, 5u}) {
    std::vector<double> n(kSize), u(kSize);
    {
      std::vector<std::jthread> pool;
      for (std::size_t t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
          const std::size_t first = kSize * t / threads;
          const std::size_t size = kSize * (t + 1) / threads - first;
          rng.fill_normal(first, std::span(n).subspan(first, size));
          rng.fill_uniform01(first, std::span(u).subspan(first, size));
        });
      }
    }
    EXPECT_EQ(n, normal) << threads;
    EXPECT_EQ(u, uniform) << threads;
  }
}

TEST(Philox, StreamsSeedsAndSplitsDiffer) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t k = 0; k < 100; ++k) {
    seen.insert(Rng{.seed = k, .stream = 0}.bits(0));
    if (k > 0) seen.insert(Rng{.seed = 0, .stream = k}.bits(0));
    seen.insert(Rng{.seed = 0, .stream = 0}.split(k).bits(0));
  }
  EXPECT_EQ(seen.size(), 299u);
}

TEST(Philox, IntegersFillTheirRange) {
  const Rng rng{.seed = 1, .stream = 1};
  int counts[7] = {};
  for (std::uint64_t i = 0; i < 70000; ++i) {
    const std::int64_t k = rng.integer(i, -3, 3);
    ASSERT_TRUE(k >= -3 && k <= 3);
    ++counts[k + 3];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 600);  // 6 standard deviations of 93
  EXPECT_EQ(rng.integer(0, 5, 5), 5);
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(
      static_cast<std::uint64_t>(rng.integer(0, lowest, std::numeric_limits<std::int64_t>::max())),
      static_cast<std::uint64_t>(lowest) + rng.bits(0));
}

TEST(Philox, MomentsOfTheNormal) {
  const Rng rng{.seed = 2, .stream = 2};
  constexpr std::size_t kSize = 1 << 20;
  std::vector<double> x(kSize);
  rng.fill_normal(0, x);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, beyond4 = 0;
  for (const double v : x) {
    m1 += v;
    m2 += v * v;
    m3 += v * v * v;
    m4 += v * v * v * v;
    beyond4 += std::fabs(v) > 4;
  }
  const auto n = static_cast<double>(kSize);  // six standard deviations of each estimate
  EXPECT_NEAR(m1 / n, 0, 6 * std::sqrt(1 / n));
  EXPECT_NEAR(m2 / n, 1, 6 * std::sqrt(2 / n));
  EXPECT_NEAR(m3 / n, 0, 6 * std::sqrt(15 / n));
  EXPECT_NEAR(m4 / n, 3, 6 * std::sqrt(96 / n));
  EXPECT_NEAR(beyond4, n * std::erfc(4 / std::sqrt(2.0)),
              6 * std::sqrt(n * std::erfc(4 / std::sqrt(2.0))));
}

// The distribution function of the quantile gives p back: |dp| = pdf * |dz| at a relative error of
// a few 1e-16 in z.
TEST(NormalQuantile, InvertsTheDistributionFunction) {
  const auto check = [](double p) {
    const auto z = static_cast<long double>(normal_quantile(p));
    const long double back = std::erfc(-z / std::sqrt(2.0L)) / 2;
    const long double slope = std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0L));
    const long double error = std::fabs(back - static_cast<long double>(p)) / slope;
    ASSERT_LE(error, 8e-16L * (1 + std::fabs(z))) << p;
  };
  for (int k = 1; k < 2000; ++k) check(k / 4000.0);
  for (double p = 0.49; p > 0x1p-53; p *= 0.97) check(p);
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  for (const double p : {0x1p-52, 0.01, 0.2, 0.074, 0.0750001})
    EXPECT_EQ(normal_quantile(1 - p), -normal_quantile(1 - (1 - p)));
  EXPECT_EQ(normal_quantile(0), -HUGE_VAL);
  EXPECT_EQ(normal_quantile(1), HUGE_VAL);
  EXPECT_TRUE(std::isnan(normal_quantile(-0.1)));
}

}  // namespace
}  // namespace parity
