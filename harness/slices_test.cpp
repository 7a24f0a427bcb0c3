#include "harness/slices.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

namespace parity {
namespace {

using ::testing::ElementsAre;

const std::vector<Dim> kDims = {{"B", 1}, {"T", 130}, {"H", 3}, {"V", 20}};

const Slicing& by_name(const std::vector<Slicing>& list, const std::string& axis) {
  return *std::ranges::find(list, axis, &Slicing::axis);
}

TEST(Slices, AxesRowsBlocksAndColumns) {
  std::vector<std::string> names;
  for (const Slicing& s : slicings(kDims)) names.push_back(s.axis);
  EXPECT_THAT(names, ElementsAre("t", "h", "t,h", "t/16,h", "t/64,h", "v", "v/16"));
}

TEST(Slices, EachIsAPartition) {
  const Grain g = grain(kDims);
  EXPECT_EQ(g.rows, 390);
  EXPECT_EQ(g.columns, 20);
  for (const Slicing& s : slicings(kDims)) {
    const std::vector<double> size = population(s, g);
    EXPECT_EQ(std::ssize(size), s.count) << s.axis;
    EXPECT_EQ(std::accumulate(size.begin(), size.end(), 0.0), 7800) << s.axis;
    EXPECT_GT(*std::ranges::min_element(size), 0) << s.axis;
    EXPECT_EQ(*std::ranges::max_element(size), s.elements) << s.axis;
  }
}

TEST(Slices, RegionsHoldWhatTheirNamesSay) {
  const std::vector<Slicing> list = slicings(kDims);
  // Row 128 * 3 + 2 is token 128 of head 2.
  const std::int64_t row = 128 * 3 + 2;
  const auto text = [&](const std::string& axis, std::int64_t line) {
    const Slicing& s = by_name(list, axis);
    return describe(s, kDims, s.region(line));
  };
  EXPECT_EQ(text("t", row), "t=128");
  EXPECT_EQ(text("h", row), "h=2");
  EXPECT_EQ(text("t,h", row), "t=128,h=2");
  EXPECT_EQ(text("t/16,h", row), "t=128..129,h=2") << "the last tile is a partial one";
  EXPECT_EQ(text("t/64,h", 70 * 3), "t=64..127,h=0");
  EXPECT_EQ(text("v", 7), "v=7");
  EXPECT_EQ(text("v/16", 17), "v=16..19");
}

TEST(Slices, GatherAddsTheLinesOfARegion) {
  std::vector<double> by_row(390), by_column(20);
  std::iota(by_row.begin(), by_row.end(), 0);
  std::iota(by_column.begin(), by_column.end(), 0);
  const std::vector<Slicing> list = slicings(kDims);
  EXPECT_EQ(gather(by_name(list, "t"), by_row, by_column)[2], 6 + 7 + 8);
  EXPECT_EQ(gather(by_name(list, "v/16"), by_row, by_column)[1], 16 + 17 + 18 + 19);
}

TEST(Slices, VectorsAndScalars) {
  EXPECT_TRUE(slicings({}).empty());
  const std::vector<Slicing> vector = slicings({{"C", 40}});
  EXPECT_EQ(vector.size(), 2u);  // c, c/16
  EXPECT_TRUE(slicings({{"T", 0}, {"V", 4}}).empty());
}

}  // namespace
}  // namespace parity
