// 2:4 rules: indices of every pattern, the order of metadata words as a permutation, pruning.
#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "references/sparse24/compress.hpp"
#include "references/sparse24/prune.hpp"

namespace parity::sparse24 {
namespace {

Tensor matrix(Dtype dtype, std::int64_t rows, std::int64_t columns,
              const std::vector<double>& values) {
  return make_tensor({.name = "x", .dtype = dtype, .dims = {{"M", rows}, {"K", columns}}}, values);
}

TEST(Compress, WordsArePermuted) {
  for (const auto& [order, wide] :
       {std::pair{WordOrder::Cutlass, false}, std::pair{WordOrder::Cutlass, true},
        std::pair{WordOrder::Old, false}}) {
    std::set<std::int64_t> seen;
    for (std::int64_t r = 0; r < 64; ++r)
      for (std::int64_t c = 0; c < 4; ++c) seen.insert(reordered_word(order, wide, 64, r, c));
    EXPECT_EQ(seen.size(), 256U);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), 255);
  }
}

TEST(Compress, IndicesOfEveryPattern) {
  std::vector<double> values(32 * 32, 0.0);
  for (std::size_t p = 0; p < 16; ++p)  // group p of the first rows: pattern p
    for (std::size_t i = 0; i < 4; ++i)
      if ((p >> i & 1) != 0) values[p / 8 * 32 + p % 8 * 4 + i] = static_cast<double>(p + 1);
  const Compressed c =
      compress(matrix(Dtype::BF16, 32, 32, values), WordOrder::Plain, Defect::None);
  const auto kept = [&](std::size_t p) {
    return std::pair{c.kept[2 * p] % 4, c.kept[2 * p + 1] % 4};
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(kept(0), (Pair{2, 3}));
  EXPECT_EQ(kept(0b0001), (Pair{0, 2}));
  EXPECT_EQ(kept(0b0010), (Pair{1, 2}));
  EXPECT_EQ(kept(0b0011), (Pair{0, 1}));
  EXPECT_EQ(kept(0b0101), (Pair{0, 2}));
  EXPECT_EQ(kept(0b1001), (Pair{0, 3}));
  EXPECT_EQ(kept(0b0110), (Pair{1, 2}));
  EXPECT_EQ(kept(0b1010), (Pair{1, 3}));
  EXPECT_EQ(kept(0b1100), (Pair{2, 3}));
  EXPECT_EQ(c.violations, 5);  // three of four, and all
}

TEST(Compress, RefusesRowsThatDoNotFillATile) {
  EXPECT_NE(refuses(Dtype::BF16, WordOrder::Cutlass, 16, 64), "");
  EXPECT_EQ(refuses(Dtype::I8, WordOrder::Cutlass, 16, 64), "");
  EXPECT_NE(refuses(Dtype::F32, WordOrder::Old, 32, 64), "");
}

TEST(Prune, LaterOfEqualsOrOpen) {
  const Tensor x = matrix(Dtype::F32, 1, 4, {2, -2, 2, 1});
  const Mask later = prune(x, Rule::HigherIndex, Defect::None);
  EXPECT_EQ(later.kept, (std::vector<std::uint8_t>{0, 1, 1, 0}));
  const Mask norm = prune(x, Rule::WeightNorm, Defect::None);
  EXPECT_EQ(norm.open, (std::vector<std::uint8_t>{1, 1, 1, 0}));
}

TEST(Prune, TilesKeepTwoOfEveryRowAndColumnBySignedValue) {
  std::vector<double> values(16, -1.0);
  values[0] = values[5] = values[10] = values[15] = 5;
  values[1] = -9;
  const Mask m = prune(matrix(Dtype::F32, 4, 4, values), Rule::Tile, Defect::None);
  for (std::size_t i = 0; i < 4; ++i) {
    int row = 0, column = 0;
    for (std::size_t j = 0; j < 4; ++j) row += m.kept[4 * i + j], column += m.kept[4 * j + i];
    EXPECT_LE(row, 2);
    EXPECT_LE(column, 2);
    EXPECT_EQ(m.kept[5 * i], 1);
  }
  EXPECT_EQ(m.kept[1], 0);
}

}  // namespace
}  // namespace parity::sparse24
