#include "references/fsdp/layout.hpp"

#include <gtest/gtest.h>
#include <numeric>

#include "harness/failure.hpp"

namespace parity::fsdp {
namespace {

std::vector<float> counted(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  std::iota(x.begin(), x.end(), 1.f);
  return x;
}

TEST(Layout, ABlocksOwnParameterComesAfterItsChildren) {
  const std::vector<std::string> names = {"tok.weight", "blocks.0.scale", "blocks.0.norm1.weight",
                                          "blocks.0.mix.wq.weight", "norm.weight"};
  EXPECT_EQ(post_order(names), (std::vector<std::size_t>{0, 2, 3, 1, 4}));
}

TEST(Layout, ShardsArePaddedAndLastRanksShortOrEmpty) {
  const Layout layout({{"a.w", {5, 2}}, {"b.w", {1}}}, {{"a", {"a"}}}, 4);
  ASSERT_EQ(layout.units().size(), 2u);
  EXPECT_EQ(layout.units()[0].name, "root");
  EXPECT_EQ(layout.rows_padded(0), 2);
  EXPECT_EQ(layout.rows_on(0, 2), 1);
  EXPECT_EQ(layout.rows_on(0, 3), 0);
  EXPECT_EQ(layout.rows_on(1, 0), 1);
  EXPECT_EQ(layout.rows_on(1, 1), 0);
  const std::vector<float> whole = counted(10);
  EXPECT_EQ(layout.padded_shard(0, whole, 2), (std::vector<float>{9, 10, 0, 0}));
  EXPECT_EQ(layout.padded_shard(0, whole, 3), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_TRUE(layout.shard(0, whole, 3).empty());
}

TEST(Layout, MergingUndoesShardingForAnyNumberOfRanksAndBothDimensions) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const std::int64_t even = 2 * ranks;
    const Layout layout({{"a.w", {7, 3}}, {"b.w", {3, even, 2}, 1}, {"c.w", {1}}}, {}, ranks);
    for (std::size_t p = 0; p < 3; ++p) {
      const std::vector<float> whole = counted(layout.parameters()[p].count());
      std::vector<std::vector<float>> shards;
      std::vector<std::span<const float>> parts;
      for (int r = 0; r < ranks; ++r) {
        shards.push_back(layout.padded_shard(p, whole, r));
        ASSERT_EQ(std::ssize(shards.back()), layout.shard_elements(p));
      }
      for (const auto& s : shards) parts.emplace_back(s);
      EXPECT_EQ(layout.merge(p, parts), whole) << ranks << " ranks";
    }
  }
}

TEST(Layout, RefusesWhatFullyShardRefuses) {
  EXPECT_THROW(Layout({{"s", {}}}, {}, 2), UsageError);         // 0-dimensional
  EXPECT_THROW(Layout({{"w", {4, 3}, 1}}, {}, 2), UsageError);  // uneven columns
  EXPECT_THROW(Layout({{"a.w", {4}}, {"a.b", {4}, 0, Dtype::BF16}}, {}, 2), UsageError);
  EXPECT_NO_THROW(Layout({{"a.w", {4}}, {"b.w", {4}, 0, Dtype::BF16}}, {{"b", {"b"}}}, 2));
}

}  // namespace
}  // namespace parity::fsdp
