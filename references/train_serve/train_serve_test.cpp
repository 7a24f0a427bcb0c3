// Stages of a weight from training to serving: bytes come back as they went, rules of the classes.
#include <cmath>
#include <gtest/gtest.h>

#include "references/train_serve/pipeline.hpp"

namespace parity::train_serve {
namespace {

Case problem(const Options& options) {
  Case c;
  c.op = "train_serve";
  c.fill = "test";
  c.options = options;
  c.sizes = Sizes{{"M", 4, {}}, {"N", 8, {}}, {"K", 64, {}}};
  return c;
}

Tensor weight() {
  std::vector<double> values;
  for (int i = 0; i < 8 * 64; ++i) values.push_back(std::sin(i * 0.7) * (1 + i % 5));
  return make_tensor({.name = "w", .dtype = Dtype::F32, .dims = {{"N", 8}, {"K", 64}}}, values);
}

TEST(Stages, BytesComeBackAsTheyWent) {
  for (const char* chain : {"nvfp4_torchao_b2", "int_affine"}) {
    const Case c = problem({{"serve", chain}});
    const Side side = serving_side(c);
    const Held held = quantised(side, c, weight());
    const Held back = unpacked(side, packed(side, held, 8, 64, ""), held, 8, 64, "");
    EXPECT_EQ(back.codes, held.codes) << chain;
    EXPECT_EQ(back.scales, held.scales) << chain;
    const Held wrong = unpacked(side, packed(side, held, 8, 64, "P-ts-nibbles"), held, 8, 64, "");
    EXPECT_NE(wrong.codes, held.codes) << chain;
  }
}

TEST(Classes, TwoChainsDifferAtThresholdsOnly) {
  const Case c = problem({{"serve", "nvfp4_torchao_b2"}, {"train", "nvfp4_te"}});
  const Tensor w = weight();
  const Held a = quantised(training_side(c, ""), c, w), b = quantised(serving_side(c), c, w);
  EXPECT_EQ(chain_violations(w, a, b, 64), 0);
  Held moved = b;
  moved.codes[5] = static_cast<std::uint8_t>(moved.codes[5] ^ 3);
  EXPECT_GE(chain_violations(w, a, moved, 64), 1);
}

TEST(Classes, OrderOfTheScalesIsAnUlpAtMost) {
  const Case c = problem({{"serve", "nvfp4_torchao_b2"}});
  const Side side = serving_side(c);
  const Held held = quantised(side, c, weight());
  for (std::size_t i = 0; i < held.codes.size(); ++i) {
    const float a = decoded(side, held, i, 64, true), b = decoded(side, held, i, 64, false);
    EXPECT_LE(std::fabs(a - b), std::nextafter(std::fabs(a), INFINITY) - std::fabs(a));
  }
}

TEST(Classes, RatioInDecibels) {
  EXPECT_NEAR(sqnr({1, 1}, {1.1, 0.9}), 20, 1e-9);
  EXPECT_EQ(sqnr({1}, {1}), INFINITY);
}

TEST(Classes, UnknownOnesAreNamed) { EXPECT_ANY_THROW((void)class_of(problem({{"class", "P9"}}))); }

}  // namespace
}  // namespace parity::train_serve
