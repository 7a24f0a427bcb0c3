#include "harness/grids.hpp"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Grids, CoarserOnesOnly) {
  EXPECT_THAT(coarser_grids(Dtype::F32),
              ElementsAre(Dtype::E4M3, Dtype::BF16, Dtype::F16, Dtype::TF32));
  EXPECT_THAT(coarser_grids(Dtype::BF16), ElementsAre(Dtype::E4M3));
  EXPECT_THAT(coarser_grids(Dtype::F16), ElementsAre(Dtype::E4M3, Dtype::BF16));
  EXPECT_THAT(coarser_grids(Dtype::E4M3), IsEmpty());
  EXPECT_THAT(coarser_grids(Dtype::I32), IsEmpty());
}

// On the grid exactly where rounding to the grid's format changes nothing.
TEST(Grids, AgreeWithRounding) {
  const Rng rng{.seed = 5};
  for (const Dtype grid : {Dtype::E4M3, Dtype::BF16, Dtype::F16, Dtype::TF32, Dtype::F32})
    for (std::uint64_t i = 0; i < 20000; ++i) {
      const int exponent = static_cast<int>(rng.integer(i, -30, 20));
      const double whole = static_cast<double>(rng.split(1).integer(i, -4096, 4096));
      const double value = std::ldexp(whole, exponent);
      EXPECT_EQ(on_grid(grid, value), round_to(grid, value) == value) << name(grid) << " " << value;
    }
  EXPECT_FALSE(on_grid(Dtype::BF16, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(on_grid(Dtype::E4M3, 480));
}

TEST(Grids, RandomValuesLieThereByChance) {
  std::vector<double> values(100000);
  Rng{.seed = 9}.fill_normal(0, values);
  for (double& v : values) v = round_to(Dtype::BF16, v);
  values.push_back(0);  // zeros are not counted
  const GridShares shares = grid_shares(values, Dtype::BF16);
  EXPECT_EQ(shares.counted, 100000);
  EXPECT_NEAR(shares.share[0], grid_chance(Dtype::E4M3, Dtype::BF16), 5e-3);
  EXPECT_EQ(grid_chance(Dtype::BF16, Dtype::F32), 0x1p-16);
}

}  // namespace
}  // namespace parity
