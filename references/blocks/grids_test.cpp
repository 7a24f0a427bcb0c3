#include "references/blocks/grids.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "harness/failure.hpp"

namespace parity::net {
namespace {

double read_at(Interpolation kind, std::int64_t d, std::int64_t n,
               const std::vector<double>& line) {
  const Taps<double> taps =
      table_taps<double>(kind, d, n, static_cast<std::int64_t>(line.size()), false);
  double sum = 0;
  for (std::size_t i = 0; i < taps.index.size(); ++i)
    sum += taps.weight[i] * line[static_cast<std::size_t>(taps.index[i])];
  return sum;
}

TEST(Grids, AreReadAndPrinted) {
  const std::vector<Grid> grids = parse_grids("1x4x2+3x2x6");
  EXPECT_EQ(print_grids(grids), "1x4x2+3x2x6");
  EXPECT_EQ(patches(grids), 44);
  EXPECT_EQ(patches_by_item(grids), (std::vector<std::int64_t>{8, 36}));
  for (const char* wrong : {"", "1x2", "1x2x", "0x2x2", "1x2x2+", "1x2x2x2", "-1x2x2", "axbxc"})
    EXPECT_THROW(parse_grids(wrong), UsageError) << wrong;
}

TEST(Grids, ItemsArePaddedAndBack) {
  Array<double> flat({3, 2});
  for (std::int64_t i = 0; i < 6; ++i) flat[i] = static_cast<double>(i + 1);
  const Array<double> padded = pad_items(flat, {1, 2}, -1.0);
  EXPECT_EQ(padded.shape, (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(padded.data, (std::vector<double>{1, 2, -1, -1, 3, 4, 5, 6}));
  EXPECT_EQ(unpad_items(padded, {1, 2}).data, flat.data);
}

TEST(Grids, PlacesGoFrameRowColumn) {
  const std::vector<Place> at = places(parse_grids("1x1x2+2x2x3"));
  ASSERT_EQ(at.size(), 14u);
  EXPECT_EQ(at[1].col, 1);
  EXPECT_EQ(at[2 + 6 + 4].item, 1);
  EXPECT_EQ(at[2 + 6 + 4].t, 1);
  EXPECT_EQ(at[2 + 6 + 4].row, 1);
  EXPECT_EQ(at[2 + 6 + 4].col, 1);
}

TEST(TableTaps, TheTablesOwnSizeIsReadAsItIs) {
  const std::vector<double> line = {3, -1, 4, 1, -5};
  for (const Interpolation kind : {Interpolation::Bilinear, Interpolation::Bicubic})
    for (std::int64_t d = 0; d < 5; ++d)
      EXPECT_EQ(read_at(kind, d, 5, line), line[static_cast<std::size_t>(d)]);
}

TEST(TableTaps, BilinearTwoOfFourAreMeans) {  // source coordinates 0.5 and 2.5
  const std::vector<double> line = {1, 3, 10, 20};
  EXPECT_EQ(read_at(Interpolation::Bilinear, 0, 2, line), 2);
  EXPECT_EQ(read_at(Interpolation::Bilinear, 1, 2, line), 15);
}

TEST(TableTaps, BilinearFourOfTwoClampsBothEnds) {  // -0.25 -> 0, 0.25, 0.75, 1.25
  const std::vector<double> line = {0, 1};
  EXPECT_EQ(read_at(Interpolation::Bilinear, 0, 4, line), 0);
  EXPECT_EQ(read_at(Interpolation::Bilinear, 1, 4, line), 0.25);
  EXPECT_EQ(read_at(Interpolation::Bilinear, 2, 4, line), 0.75);
  EXPECT_EQ(read_at(Interpolation::Bilinear, 3, 4, line), 1);
}

TEST(TableTaps, BicubicKeepsLinesInside) {
  std::vector<double> line(16);
  std::iota(line.begin(), line.end(), 0.0);
  for (std::int64_t d = 6; d < 18; ++d)
    EXPECT_NEAR(read_at(Interpolation::Bicubic, d, 24, line),
                (static_cast<double>(d) + 0.5) * 16 / 24 - 0.5, 0.06)
        << d;  // a = -3/4 does not reproduce lines, but weights sum to one
  const Taps<double> taps = table_taps<double>(Interpolation::Bicubic, 1, 5, 3, false);
  EXPECT_NEAR(std::accumulate(taps.weight.begin(), taps.weight.end(), 0.0), 1, 1e-15);
}

TEST(Rope, TurnsBackToWhereItStarted) {
  const Case c;
  const Tensors none;
  net::Run<double> run(c, none, false);
  const std::vector<Place> at = places(parse_grids("2x3x2"));
  for (const bool halves : {false, true}) {
    const GridRope rope{.halves = halves};
    const Array<double> cos_sin = rope_cos_sin(run, at, 8, rope);
    Array<double> x({12, 2, 8});
    for (std::int64_t i = 0; i < x.count(); ++i) x[i] = static_cast<double>(i % 7) - 3;
    Array<double> y = x;
    rotate(run, y, cos_sin, rope, false);
    EXPECT_EQ(y[0], x[0]);  // row 0, column 0
    EXPECT_NE(y[5 * 16], x[5 * 16]);
    rotate(run, y, cos_sin, rope, true);
    for (std::int64_t i = 0; i < x.count(); ++i) EXPECT_NEAR(y[i], x[i], 1e-14);
  }
}

TEST(Rope, ColumnsTurnTheEvenPairs) {
  const Case c;
  const Tensors none;
  net::Run<double> run(c, none, false);
  const Array<double> cos_sin = rope_cos_sin(run, places(parse_grids("1x2x3")), 8, {.theta = 1e4});
  const std::int64_t patch = 5 * 8;  // row 1, column 2
  EXPECT_NEAR(cos_sin[patch], std::cos(2.0), 1e-15);
  EXPECT_NEAR(cos_sin[patch + 2], std::cos(1.0), 1e-15);
  EXPECT_NEAR(cos_sin[patch + 4], std::cos(2e-2), 1e-15);
  EXPECT_NEAR(cos_sin[patch + 6], std::cos(1e-2), 1e-15);
}

}  // namespace
}  // namespace parity::net
