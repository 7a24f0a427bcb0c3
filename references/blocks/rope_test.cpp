#include "references/blocks/rope.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace parity::net {
namespace {

Turns<double> turns(const std::vector<std::int64_t>& positions, std::int64_t R, const Rope& rope) {
  const Case c;
  const Tensors none;
  Run<double> run(c, none, false);
  return turns_at(run, positions, R, rope);
}

Array<double> row(std::initializer_list<double> x) {
  Array<double> a({1, 1, static_cast<std::int64_t>(x.size())});
  a.data = x;
  return a;
}

TEST(Rope, TurnsPairsByPositionTimesFrequency) {
  const Rope rope{.pairs = Rope::Pairs::Interleaved, .theta = 100};
  Array<double> x = row({9, 1, 0, 0, 2});
  rotate(x, 1, turns({3}, 4, rope), rope.pairs, Sense::Forward);
  EXPECT_EQ(x[0], 9);  // before the rotated channels
  EXPECT_DOUBLE_EQ(x[1], std::cos(3.0));
  EXPECT_DOUBLE_EQ(x[2], std::sin(3.0));
  EXPECT_NEAR(x[3], -2 * std::sin(0.3), 1e-15);
  EXPECT_NEAR(x[4], 2 * std::cos(0.3), 1e-15);
  Array<double> y = row({9, 1, 0, 0, 2});
  rotate(y, 1, turns({3}, 4, rope), Rope::Pairs::Half, Sense::Forward);
  EXPECT_DOUBLE_EQ(y[1], std::cos(3.0));
  EXPECT_DOUBLE_EQ(y[3], std::sin(3.0));
}

TEST(Rope, TurningBackUndoes) {
  for (const Rope::Pairs pairs : {Rope::Pairs::Interleaved, Rope::Pairs::Half}) {
    Array<double> x = row({1, 2, 3, 4, 5, 6});
    const Turns<double> t = turns({17}, 6, {.pairs = pairs});
    rotate(x, 0, t, pairs, Sense::Forward);
    EXPECT_GT(std::abs(x[0] - 1), 0.1);
    rotate(x, 0, t, pairs, Sense::Back);
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_NEAR(x[i], static_cast<double>(i + 1), 1e-14);
  }
}

// Fast pairs keep their frequency, slow ones lose the factor (arXiv 2309.00071).
TEST(Rope, YarnStretchesSlowPairsOnly) {
  Rope rope{.pairs = Rope::Pairs::Half, .yarn = {.factor = 40, .original = 4096}};
  const Turns<double> plain = turns({1}, 64, {.pairs = Rope::Pairs::Half}),
                      yarn = turns({1}, 64, rope);
  EXPECT_DOUBLE_EQ(std::asin(yarn.sin[0]), std::asin(plain.sin[0]));
  EXPECT_NEAR(yarn.sin[31], plain.sin[31] / 40, 1e-12);
  EXPECT_GT(yarn.sin[15], plain.sin[15] / 40);
  EXPECT_LT(yarn.sin[15], plain.sin[15]);
}

TEST(Rope, YarnFactors) {
  const Yarn yarn{.factor = 40, .mscale = 0.707, .mscale_all = 1};
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(yarn.softmax_factor(), m * m);
  EXPECT_DOUBLE_EQ(yarn.rotary_factor(), (0.0707 * std::log(40.0) + 1) / m);
  EXPECT_EQ(Yarn{}.softmax_factor(), 1);
  EXPECT_EQ(Yarn{}.rotary_factor(), 1);
}

}  // namespace
}  // namespace parity::net
