// One token's read: weights, value and gradients where they can be told by hand.
#include "kernels/attn_res/token.hpp"

#include <array>
#include <gtest/gtest.h>

namespace parity::attn_res_kernel {
namespace {

constexpr float kSources[2][2] = {{2, 2}, {4, -4}};
constexpr auto kAt = [](std::int64_t n) { return kSources[n]; };
constexpr Read kRead{.N = 2, .D = 2};

TEST(AttnResToken, ValuesAreReadAsTheyAre) {
  float value[2], weights[2];
  read(kRead, std::array{0.0F, 0.0F}.data(), kAt, value, weights);
  EXPECT_EQ(weights[0], 0.5F);
  EXPECT_EQ(value[0], 3);
  EXPECT_EQ(value[1], -1);
}

TEST(AttnResToken, KeysAreNormalised) {
  float value[2], weights[2];
  read(kRead, std::array{0.0F, 200.0F}.data(), kAt, value, weights);  // keys (1, 1) and (1, -1)
  EXPECT_EQ(weights[0], 1);
  EXPECT_EQ(weights[1], 0);
  EXPECT_EQ(value[0], 2);
}

TEST(AttnResToken, GradientsOfAMean) {
  const float dy[2] = {1, 0};
  float d[2][2] = {}, dq[2] = {};
  read_backward(
      kRead, std::array{0.0F, 0.0F}.data(), kAt, dy,
      [&](std::int64_t n, std::int64_t i, float x) { d[n][i] = x; }, dq);
  EXPECT_EQ(d[0][0], 0.5F);
  EXPECT_EQ(d[1][1], 0);
  EXPECT_EQ(dq[0], 0);  // ds = -+1/2 along (1, 1) and (1, -1)
  EXPECT_EQ(dq[1], -1);
}

}  // namespace
}  // namespace parity::attn_res_kernel
