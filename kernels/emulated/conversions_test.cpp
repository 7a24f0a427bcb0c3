// Emulated conversions. Their formats are compared with CUDA's headers by
// harness/numeric/formats_cuda_test.cpp; here is what the instructions add to them.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "kernels/emulated/instructions.hpp"

namespace parity::emulated {
namespace {

TEST(EmulatedConversions, EveryCodeComesBack) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    float high = 0, low = 0;
    from_e2m1x2(code, high, low);
    EXPECT_EQ(to_e2m1x2(high, low), code);
    if ((code & 0x7FU) != 0x7FU) {
      EXPECT_EQ(to_e4m3(from_e4m3(code)), code);
    }
  }
}

TEST(EmulatedConversions, TiesGoToEvenCodesAndTheRestSaturates) {
  EXPECT_EQ(to_e2m1x2(0.25F, 0.75F), 0x02U);
  EXPECT_EQ(to_e2m1x2(-2.5F, 5.0F), 0xC6U);
  EXPECT_EQ(to_e2m1x2(1e30F, -std::numeric_limits<float>::infinity()), 0x7FU);
  EXPECT_EQ(to_e4m3(17.0F), to_e4m3(16.0F));
  EXPECT_EQ(to_e4m3(19.0F), to_e4m3(20.0F));
  EXPECT_EQ(to_e4m3(1e9F), 0x7EU);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(to_e4m3(-kNan), 0x7FU);
  EXPECT_EQ(to_e2m1x2(kNan, -kNan), 0x77U);
  EXPECT_TRUE(std::isnan(from_e4m3(0xFF)));
}

}  // namespace
}  // namespace parity::emulated
