#include <cmath>
#include <gtest/gtest.h>

#include "harness/bound.hpp"

namespace parity {
namespace {

constexpr double kU = 0x1p-24;
using Kind = Growth::Kind;

TEST(Growth, WorstCaseIsGammaN) {
  EXPECT_DOUBLE_EQ(growth_factor({.kind = Kind::WorstCase, .n = 1000}, kU),
                   1000 * kU / (1 - 1000 * kU));
  EXPECT_EQ(growth_factor({.kind = Kind::None, .n = 1000}, kU), 0);
}

TEST(Growth, VoidWhereNuReachesOne) {
  // A bf16 accumulator over 256 terms: no bound at all.
  EXPECT_TRUE(std::isinf(growth_factor({.kind = Kind::WorstCase, .n = 256}, 0x1p-8)));
  EXPECT_TRUE(std::isfinite(growth_factor({.kind = Kind::WorstCase, .n = 255}, 0x1p-8)));
  EXPECT_TRUE(
      std::isinf(growth_factor({.kind = Kind::Blocked, .n = 1 << 17, .block = 128}, 0x1p-8)));
  EXPECT_TRUE(std::isinf(growth_factor({.kind = Kind::WorstCase, .n = std::nan("")}, kU)));
}

TEST(Growth, BlockedAndPairwiseShortenTheChain) {
  const double blocked = growth_factor({.kind = Kind::Blocked, .n = 4096, .block = 64}, kU);
  EXPECT_DOUBLE_EQ(blocked, 127 * kU / (1 - 127 * kU));
  EXPECT_DOUBLE_EQ(growth_factor({.kind = Kind::Pairwise, .n = 4096}, kU), 12 * kU / (1 - 12 * kU));
  // A block as long as the sum is a plain sum.
  EXPECT_DOUBLE_EQ(growth_factor({.kind = Kind::Blocked, .n = 100, .block = 128}, kU),
                   growth_factor({.kind = Kind::WorstCase, .n = 100}, kU));
}

TEST(Growth, ProbabilisticGrowsLikeTheRoot) {
  const double one = growth_factor({.kind = Kind::Probabilistic, .n = 1e4, .lambda = 9}, kU);
  EXPECT_NEAR(one / (9 * 100 * kU), 1, 1e-4);
  const double hundredfold =
      growth_factor({.kind = Kind::Probabilistic, .n = 1e6, .lambda = 9}, kU);
  EXPECT_NEAR(hundredfold / one, 10, 1e-2);
  EXPECT_TRUE(std::isinf(growth_factor({.kind = Kind::Probabilistic, .n = 10, .lambda = 0}, kU)));
}

TEST(Growth, LambdaOfTheFamilyWiseTarget) { EXPECT_NEAR(growth_lambda(1e3, 1e6, 1e-6), 8.4, 0.05); }

}  // namespace
}  // namespace parity
