#include "harness/reduced.hpp"

#include <array>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

TEST(ReducedFill, IsPrintedAsItIsRead) {
  const std::string text = "small_rows~cotangents.y=one,x=first";
  const ReducedFill fill = ReducedFill::parse(text);
  EXPECT_EQ(fill.fill, "small_rows");
  EXPECT_EQ(fill.of("x"), Simpler::First);
  EXPECT_EQ(fill.of("cotangents/y"), Simpler::One);
  EXPECT_EQ(fill.of("z"), Simpler::No);
  EXPECT_EQ(fill.str(), text);
  EXPECT_EQ(ReducedFill::parse("a~*=int").of("anything"), Simpler::Int);
  EXPECT_EQ(ReducedFill::parse("plain").str(), "plain");
}

TEST(ReducedFill, NonsenseIsRefused) {
  for (const char* text : {"a~x", "a~x=big", "a~=one", "a~x=one,,y=int"})
    EXPECT_THROW(ReducedFill::parse(text), UsageError) << text;
}

TEST(ReducedFill, ValuesBecomeSimpler) {
  const auto made = [](Simpler how) {
    std::array row = {0.3, -5.0, 0.0, 1.7};
    simplify(how, row);
    return row;
  };
  EXPECT_EQ(made(Simpler::Zero), (std::array{0.0, 0.0, 0.0, 0.0}));
  EXPECT_EQ(made(Simpler::One), (std::array{1.0, 1.0, 1.0, 1.0}));
  EXPECT_EQ(made(Simpler::Sign), (std::array{1.0, -1.0, 0.0, 1.0}));
  EXPECT_EQ(made(Simpler::Int), (std::array{0.0, -3.0, 0.0, 2.0}));
  EXPECT_EQ(made(Simpler::Power), (std::array{0.25, -4.0, 0.0, 1.0}));
  EXPECT_EQ(made(Simpler::First), (std::array{0.3, 0.0, 0.0, 0.0}));
  EXPECT_EQ(made(Simpler::No), (std::array{0.3, -5.0, 0.0, 1.7}));
}

TEST(ReducedFill, AnIdNamesACaseOfIt) {
  const Case problem = resolve(registry(), parse_id("l2norm/N2,D3/f32/normal~x=sign/s5"));
  const Tensors inputs = generate(problem, registry().op_or_throw("l2norm"), 1);
  for (const double v : inputs.at("x").widened()) EXPECT_EQ(std::abs(v), 1);
  bool plain = false;  // the other tensor is drawn as ever
  for (const double v : inputs.at("cotangents/y").widened()) plain |= std::abs(v) != 1;
  EXPECT_TRUE(plain);
}

}  // namespace
}  // namespace parity
