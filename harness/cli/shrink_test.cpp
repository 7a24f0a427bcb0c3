#include "harness/cli/shrink.hpp"

#include <gtest/gtest.h>

#include "harness/reduced.hpp"

namespace parity::cli {
namespace {

std::vector<std::string> two_inputs(const Case&) { return {"x", "cotangents/y"}; }

Case large() {
  return {.op = "o",
          .sizes = {{"T", 1030, {3, 0, 1027}}, {"D", 128, {}}},
          .fill = "normal",
          .options = {{"eps", "1"}, {"gate", "x"}},
          .seed = 7};
}

TEST(Shrink, FindsTheLeastOfEverySizeValueAndOption) {
  const auto fails = [](const Case& c) {
    return c.sizes["D"] >= 37 && c.sizes["T"] >= 5 && c.options.get("gate", "") == "x" &&
           ReducedFill::parse(c.fill).of("x") != Simpler::Zero;
  };
  const Shrunk shrunk = shrink(large(), fails, two_inputs);
  EXPECT_EQ(shrunk.problem.sizes["D"], 37);
  EXPECT_LE(shrunk.problem.sizes["T"], 7);
  EXPECT_EQ(shrunk.problem.options.str(), "gate=x");
  EXPECT_EQ(shrunk.problem.seed, 0u);
  EXPECT_EQ(shrunk.problem.fill, "normal~cotangents.y=zero,x=one");
  EXPECT_TRUE(shrunk.complete);
  EXPECT_EQ(shrink(large(), fails, two_inputs).problem.id(), shrunk.problem.id());
}

TEST(Shrink, StaysWhereNothingSmallerFails) {
  const Case start = large();
  const Shrunk shrunk = shrink(
      start, [](const Case&) { return false; }, two_inputs);
  EXPECT_EQ(shrunk.problem.id(), start.id());
}

TEST(Shrink, ItsLimitsHold) {
  const Shrunk shrunk =
      shrink(large(), [](const Case&) { return false; }, two_inputs, {.trials = 3});
  EXPECT_EQ(shrunk.trials, 3);
  EXPECT_FALSE(shrunk.complete);
}

}  // namespace
}  // namespace parity::cli
