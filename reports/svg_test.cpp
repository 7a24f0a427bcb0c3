#include "reports/svg.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "reports/sample_test.hpp"

namespace parity::reports::svg {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

void expect_sound(const std::string& picture) {
  EXPECT_EQ(test::markup_error(picture), "");
  EXPECT_EQ(picture.find("nan"), std::string::npos) << picture;
  EXPECT_EQ(picture.find("inf"), std::string::npos) << picture;
}

TEST(Svg, TheScaleBreaksAtTheBound) {
  EXPECT_EQ(step_of(0), 0);
  EXPECT_EQ(step_of(1), kOver - 1);
  EXPECT_EQ(step_of(std::nextafter(1.0, 2.0)), kOver);
  EXPECT_EQ(step_of(kInf), kSteps - 1);
  EXPECT_EQ(step_of(kNan), kSteps - 1);  // never a pale cell
  EXPECT_EQ(step_words(kOver - 1), "0.3 to 1");
  EXPECT_EQ(step_words(kSteps - 1), "above 10");
}

TEST(Svg, AHeatmapDrawsEveryCellOnceAndItsChunks) {
  const Heatmap map{.rows = "t",
                    .cols = "h",
                    .height = 4,
                    .width = 2,
                    .cells = {0, 0.5, 0, 0.5, 0, 2, kNan, kInf}};
  const std::string picture = heatmap(map, {.rows = 256, .cols = 2, .chunk = 64});
  expect_sound(picture);
  // t lies to the right: head 0 is 0 0 0 nan, head 1 is .5 .5 2 inf.
  EXPECT_NE(picture.find("class=\"s0\""), std::string::npos);
  EXPECT_NE(picture.find("class=\"s5\""), std::string::npos);
  EXPECT_NE(picture.find("class=\"s6\""), std::string::npos);
  EXPECT_EQ(test::occurrences(picture, "h71.5"), 3);  // a cell each: nan, 2, inf
  EXPECT_EQ(test::occurrences(picture, "h143"), 1);   // two equal cells are one stroke
  EXPECT_EQ(test::occurrences(picture, "h214.5"), 1);
  EXPECT_EQ(test::occurrences(picture, "class=\"chunk\" d=\"M"), 1);
  EXPECT_EQ(heatmap({.height = 3, .width = 3, .cells = {1}}, {}),
            "");  // fewer cells than it claims
}

TEST(Svg, OddNumbersGiveSoundPictures) {
  expect_sound(ulp_histogram({0, 5, 100, 7, 0}, {1, 0, 90, 0, 1}));
  expect_sound(ulp_histogram({0, 0, 1000000000, 0, 0}, {}));
  expect_sound(profile({.axis = "t", .bound_used = {0, kNan, kInf, 1e-9, 3}}, 100, 32));
  expect_sound(profile({.axis = "t", .bound_used = {0, 0}}, 2, 64));
  expect_sound(scatter({.log2_magnitude = {-3, kNan, 2},
                        .log2_error = {-20, -5, -kInf},
                        .log2_allowed = {-8, -8, kInf},
                        .count = {4, 5, 6}}));
  EXPECT_EQ(scatter({}), "");
  EXPECT_EQ(profile({}, 0, 0), "");
  EXPECT_EQ(ulp_histogram({}, {}), "");
}

TEST(Svg, TheSampleDrawsWithItsBound) {
  const TensorRecord tensor = test::sample_tensor("o", "output", "bf16", 2, true, 1);
  expect_sound(scatter(*tensor.scatter));
  EXPECT_NE(scatter(*tensor.scatter).find("class=\"bound\""), std::string::npos);
  EXPECT_NE(profile(tensor.profiles[0], 256, 64).find("class=\"over\""), std::string::npos);
  EXPECT_LT(heatmap(tensor.heatmaps[0], {.rows = 256, .cols = 4, .chunk = 64}).size(), 8000U);
}

}  // namespace
}  // namespace parity::reports::svg
