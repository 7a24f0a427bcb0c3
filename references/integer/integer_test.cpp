// Integer quantisation against known answers: scales and zero points of the mappings, ties, the
// clipped amax, masks and scale products of the straight-through gradient.
#include <cmath>
#include <gtest/gtest.h>

#include "references/integer/affine.hpp"
#include "references/integer/int4_weight.hpp"
#include "references/integer/nf4.hpp"
#include "references/integer/rowwise.hpp"

namespace parity::integer {
namespace {

Matrix row(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return {.rows = 1, .columns = n, .values = std::move(values)};
}

TEST(Nf4, EntriesAndTies) {
  const Nf4Request r{.block = 8, .scaler_block = 0};
  const float half = kNf4Qlora[8] / 2;  // between 0 and the first entry above: the lower one
  const Nf4 q =
      quantise_nf4(r, row({4, -4, 4 * kNf4Qlora[3], 0, 4 * half, 4 * half * 1.001F, -0.0F, 3.9F}));
  EXPECT_EQ(q.codes, (std::vector<std::uint8_t>{15, 0, 3, 7, 7, 8, 7, 15}));
  EXPECT_EQ(q.amax, (std::vector<float>{4}));
  EXPECT_EQ(q.values[2], 4 * kNf4Qlora[3]);
}

// Amaxes 1 and 3: mean 2, differences -1 and 1, factor 128; 128 is clamped to 127.
TEST(Nf4, AmaxesAreQuantisedAboutTheirMean) {
  const Nf4Request r{.block = 2, .scaler_block = 2};
  const Nf4 q = quantise_nf4(r, row({1, 0, -3, 0}));
  EXPECT_EQ(q.mean, 2);
  EXPECT_EQ(q.factors, (std::vector<float>{128}));
  EXPECT_EQ(q.scalers, (std::vector<float>{-128, 127}));
  EXPECT_EQ(q.values[0], 1);
  EXPECT_EQ(q.values[2], -(127.0F / 128 + 2));
}

TEST(Nf4, AZeroBlockHasNoCodes) {
  const Nf4 q = quantise_nf4({.block = 2, .scaler_block = 0}, row({0, 0, 1, 1}));
  EXPECT_EQ(q.open, (std::vector<std::uint8_t>{1, 1, 0, 0}));
}

TEST(Affine, SymmetricDividesByHalfTheRange) {
  const Affine a{.qmin = -8, .qmax = 7};
  EXPECT_EQ(choose(a, -3, 7.5F).scale, 1);
  EXPECT_EQ(choose(a, -15, 2).scale, 2);
  EXPECT_EQ(choose(a, 0, 0).scale, 0x1p-126F);
}

TEST(Affine, NoClippingDividesEachSideByItsEnd) {
  const Affine a{.mapping = Mapping::NoClipping, .qmin = -8, .qmax = 7};
  EXPECT_EQ(choose(a, -8, 3.5F).scale, 1);
  EXPECT_EQ(choose(a, -4, 7).scale, 1);
}

TEST(Affine, AsymmetricHoldsZero) {
  const Affine a{.mapping = Mapping::Asymmetric, .qmin = -8, .qmax = 7};
  const Group positive = choose(a, 3, 15);  // from 0
  EXPECT_EQ(positive.scale, 1);
  EXPECT_EQ(positive.zero, -8);
  EXPECT_EQ(choose(a, -15, -3).zero, 7);
}

TEST(Affine, TinygemmNeedNotHoldZero) {
  const Affine a{.mapping = Mapping::Tinygemm, .qmin = 0, .qmax = 15, .eps = 1e-6F};
  const Group g = choose(a, 3, 18);
  EXPECT_EQ(g.scale, 1);
  EXPECT_EQ(g.zero, 11);  // min + 8 s
  const Integers q = quantise(a, row({3, 10.5F, 18, 11.5F}), {g});
  EXPECT_EQ(q.codes, (std::vector<float>{0, 8, 15, 8}));  // ties to even: 7.5 and 8.5
  EXPECT_EQ(q.values, (std::vector<float>{3, 11, 18, 11}));
}

TEST(Affine, Bf16RoundsTheScaleEvenWhereItIsStoredWide) {
  const Affine a{.qmin = -8, .qmax = 7, .data = Dtype::BF16, .scale = Dtype::F32};
  EXPECT_EQ(choose(a, -1, 1).scale, rounded(Dtype::BF16, 1 / 7.5F));
}

TEST(Affine, PositiveAmaxIsClippedAndHasNoGradient) {
  const Affine a{.qmin = -8, .qmax = 7};
  const Matrix x = row({7.5F, -7.5F, 0.5F, 1.5F});
  const Integers q = quantise(a, x, choose_all(a, x));
  EXPECT_EQ(q.codes, (std::vector<float>{7, -8, 0, 2}));
  const std::vector<float> g = straight_through(a, x, q, {1, 1, 1, 1});
  EXPECT_EQ(g, (std::vector<float>{0, 1, 1, 1}));
}

TEST(Affine, GradientKeepsTheScaleProducts) {
  const Affine a{.qmin = -8, .qmax = 7};
  Matrix x = row({1.3F});
  x.values.push_back(-0.7F);
  x.columns = 2;
  const Integers q = quantise(a, x, choose_all(a, x));
  const float s = q.groups[0].scale, upstream = 0.7312345F;
  EXPECT_EQ(straight_through(a, x, q, {upstream, upstream})[1], upstream * s * (1 / s));
}

TEST(Affine, RefusesBlocksThatDoNotTile) {
  EXPECT_NE(refuses({.block_columns = 32}, 4, 48), "");
  EXPECT_EQ(refuses({.block_columns = 16}, 4, 48), "");
}

TEST(Rows, ZeroRowKeepsScaleZero) {
  const Rowwise q = quantise_rows(Dtype::F32, row({0, 0}), Defect::None);
  EXPECT_EQ(q.scales[0], 0);
  EXPECT_EQ(q.codes, (std::vector<float>{0, 0}));
}

// The gradient of the wide form against central differences of a smooth stand-in: with codes and
// mask held, value = c s + zp, and s, zp depend on the extremes alone.
TEST(Int4Weight, ExtremesGetTheScalesGradient) {
  Matrix x{.rows = 1, .columns = 32};
  std::vector<float> g;
  for (int i = 0; i < 32; ++i) {
    x.values.push_back(std::sin(static_cast<float>(i) * 1.7F));
    g.push_back(std::cos(static_cast<float>(i)));
  }
  const WeightRequest r{.data = Dtype::F32};
  const WeightFakeQuant q = fake_quantise_weight(r, x, g);
  const auto high = static_cast<std::size_t>(std::max_element(x.values.begin(), x.values.end()) -
                                             x.values.begin());
  const float low = *std::min_element(x.values.begin(), x.values.end());
  // d/dmax of sum g (c s + zp) with x straight through: s' = 1/15, zp' = 8/15.
  const double s = static_cast<double>(x.values[high] - low) / 15;
  double expected = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    const double ratio = static_cast<double>(x.values[i] - low) / s;
    const double code = std::nearbyint(ratio) - 8;
    expected += static_cast<double>(g[i]) * (code + 8 - ratio) / 15;
  }
  EXPECT_NEAR(q.gradient[high], expected + static_cast<double>(g[high]), 1e-5);
}

}  // namespace
}  // namespace parity::integer
