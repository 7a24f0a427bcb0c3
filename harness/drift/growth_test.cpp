#include "harness/drift/growth.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "harness/numeric/philox.hpp"

namespace parity::drift {
namespace {

TEST(DriftGrowth, FindsTheTimeOfAnExponentialAndWhereItStops) {
  std::vector<double> d(10, 0.0);
  for (int t = 0; t < 400; ++t) {
    const double sign = t % 3 ? 1 : -1;
    d.push_back(sign * std::min(1e-3, 1e-7 * std::exp(t / 12.0)));
  }
  const Growth growth = growth_of(d);
  ASSERT_TRUE(growth.e_folding.has_value());
  EXPECT_NEAR(*growth.e_folding, 12, 0.5);
  EXPECT_EQ(growth.from, 10U);
  EXPECT_TRUE(growth.saturated);
  EXPECT_NEAR(static_cast<double>(growth.to), 10 + 12 * std::log(5e-4 / 1e-7), 2);
  EXPECT_NEAR(growth.level, 1e-3, 1e-12);
}

TEST(DriftGrowth, ExtrapolatesWhatStillGrows) {
  std::vector<double> d;
  for (int t = 0; t < 200; ++t) d.push_back(1e-8 * std::exp(t / 40.0));
  const Growth growth = growth_of(d);
  EXPECT_FALSE(growth.saturated);
  ASSERT_TRUE(growth.horizon.has_value());
  // From the median of the last quarter, hence up to 25 steps early or late.
  EXPECT_NEAR(*growth.horizon, 40 * std::log(1e-2 / 1e-8), 30);
}

TEST(DriftGrowth, EqualRunsAndShortOnesDoNotGrow) {
  EXPECT_FALSE(growth_of(std::vector<double>(100, 0.0)).e_folding.has_value());
  EXPECT_FALSE(growth_of(std::vector<double>(5, 1.0)).e_folding.has_value());
  EXPECT_FALSE(growth_of(std::vector<double>(100, 1e-3)).e_folding.has_value());
}

std::vector<double> correlated(std::size_t n, std::uint64_t seed) {
  const Rng rng{.seed = seed, .stream = 4};
  std::vector<double> list;
  double x = 0;
  for (std::size_t i = 0; i < n; ++i) list.push_back(x = 0.9 * x + rng.normal(i));
  return list;
}

// An interval that took neighbours for independent would hold the true mean in a third of cases.
TEST(BlockBootstrap, IntervalsHoldTheMeanOfCorrelatedNoise) {
  int holds = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Interval i = block_bootstrap(correlated(600, seed), 0.1);
    holds += i.low <= 0 && 0 <= i.high;
  }
  EXPECT_GE(holds, 75);
  EXPECT_LE(holds, 97);
}

TEST(BlockBootstrap, SeesAShiftAndATrend) {
  std::vector<double> shifted = correlated(600, 7), rising = shifted;
  for (double& x : shifted) x += 5;
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] += 0.02 * static_cast<double>(i);
  EXPECT_LT(block_bootstrap(shifted, 0.05).p, 0.01);
  const Interval trend = block_bootstrap_trend(rising, 0.05);
  EXPECT_LT(trend.p, 0.05);
  EXPECT_NEAR(trend.mean, 12, 5);
  EXPECT_GT(block_bootstrap_trend(correlated(600, 7), 0.05).p, 0.05);
}

}  // namespace
}  // namespace parity::drift
