#include "harness/numeric/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <stdexcept>
#include <vector>

#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

__extension__ using Quad = __float128;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(ExactSum, CancellationLeavesNothingBehind) {
  EXPECT_EQ(exact_sum(std::vector{1e308, 1.0, -1e308}), 1.0);
  EXPECT_EQ(exact_sum(std::vector{1e16, 1.0, 1.0, -1e16}), 2.0);
  EXPECT_EQ(exact_sum(std::vector{0.1, -0.1}), 0.0);
  EXPECT_FALSE(std::signbit(exact_sum(std::vector{-0.0, -0.0})));
  EXPECT_EQ(exact_sum(std::vector<double>{}), 0.0);
  EXPECT_EQ(exact_sum(std::vector{5e-324, -5e-324, 5e-324}), 5e-324);
}

TEST(ExactSum, RoundsToNearestEvenOnce) {
  EXPECT_EQ(exact_sum(std::vector{1.0, 0x1p-53}), 1.0);
  EXPECT_EQ(exact_sum(std::vector{1.0, 0x1p-53, 0x1p-1074}), 1 + 0x1p-52);
  EXPECT_EQ(exact_sum(std::vector{1.0 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);
  EXPECT_EQ(exact_sum(std::vector{-1.0, -0x1p-53, -0x1p-1074}), -1 - 0x1p-52);
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(exact_sum(std::vector{largest, 0x1p969}), largest);
  EXPECT_EQ(exact_sum(std::vector{largest, 0x1p970}), kInf);  // the tie to 2^1024
  EXPECT_EQ(exact_sum(std::vector{largest, largest, -largest}), largest);
}

TEST(ExactSum, NonFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(exact_sum(std::vector{1.0, nan})));
  EXPECT_EQ(exact_sum(std::vector{1.0, kInf, 1.0}), kInf);
  EXPECT_EQ(exact_sum(std::vector{-kInf, 1e308}), -kInf);
  EXPECT_TRUE(std::isnan(exact_sum(std::vector{kInf, -kInf})));
  EXPECT_TRUE(std::isnan(exact_dot(std::vector{0.0}, std::vector{kInf})));
  EXPECT_EQ(exact_dot(std::vector{-2.0}, std::vector{kInf}), -kInf);
}

// Products over the whole range: below the smallest subnormal and above the largest double, with no
// trace in the result.
TEST(ExactSum, ProductsBeyondDouble) {
  EXPECT_EQ(exact_dot(std::vector{1e300, 1.0, -1e300}, std::vector{1e300, 3.0, 1e300}), 3.0);
  EXPECT_EQ(exact_dot(std::vector{5e-324, 1.0, -5e-324}, std::vector{5e-324, 3.0, 5e-324}), 3.0);
  const double third = 1.0 / 3;
  EXPECT_EQ(exact_dot(std::vector{third, -1.0}, std::vector{third, third * third}),
            std::fma(third, third, -(third * third)));
  EXPECT_THROW((void)exact_dot(std::vector{1.0}, std::vector{1.0, 2.0}), std::invalid_argument);
}

// Numbers on a grid of 2^-40 below 2^20: their products and sums are exact in 113 bits.
TEST(ExactSum, AgreesWithQuadOnAGrid) {
  const Rng rng{.seed = 5, .stream = 0};
  std::vector<double> x, y;
  Quad sum = 0, dot = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    x.push_back(std::nearbyint(rng.uniform(2 * i, -1, 1) * 0x1p50) * 0x1p-40);
    y.push_back(std::nearbyint(rng.uniform(2 * i + 1, -1, 1) * 0x1p40) * 0x1p-40);
    sum += x.back();
    dot += static_cast<Quad>(x.back()) * y.back();
  }
  EXPECT_EQ(exact_sum(x), static_cast<double>(sum));
  EXPECT_EQ(exact_dot(x, y), static_cast<double>(dot));
}

TEST(ExactSum, OrderAndGroupingDoNotMatter) {
  const Rng rng{.seed = 6, .stream = 0};
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 3000; ++i) {  // any finite bit pattern
    const double x = std::bit_cast<double>(rng.bits(i));
    if (std::isfinite(x)) values.push_back(x);
  }
  const double expected = exact_sum(values);
  for (std::uint64_t round = 0; round < 5; ++round) {
    for (std::size_t i = values.size() - 1; i > 0; --i) {
      const auto j = rng.integer(10000 * round + i, 0, static_cast<std::int64_t>(i));
      std::swap(values[i], values[static_cast<std::size_t>(j)]);
    }
    EXPECT_EQ(exact_sum(values), expected);
    ExactSum left, right;
    for (std::size_t i = 0; i < values.size(); ++i) (i % 3 == 0 ? left : right).add(values[i]);
    left.add(right);
    EXPECT_EQ(left.value(), expected);
  }
  for (double& x : values) x = -x;
  EXPECT_EQ(exact_sum(values), -expected);
}

}  // namespace
}  // namespace parity
