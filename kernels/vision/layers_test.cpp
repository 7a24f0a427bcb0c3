#include "kernels/vision/layers.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace parity::vision_kernel {
namespace {

// Small integers over eight: products and short sums of them are exact.
Rows numbers(std::size_t n, int step) {
  Rows x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(static_cast<int>(i * static_cast<std::size_t>(step) % 13) - 6) / 8;
  return x;
}

float product(const Rows& a, const Rows& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(VisionLayers, LinearAndItsBackwardAreAdjoint) {
  const Rows x = numbers(3 * 5, 7), w = numbers(4 * 5, 3), dy = numbers(3 * 4, 5);
  Rows dw(w.size());
  const Rows y = linear(x, w, 5), dx = linear_backward(x, dy, w, 5, dw);
  EXPECT_EQ(product(dy, y), product(dx, x));
  EXPECT_EQ(product(dy, y), product(dw, w));
}

TEST(VisionLayers, ANormWithoutEpsHasNoGradientAlongItsRow) {
  const Rows x = numbers(2 * 9, 7), w = numbers(9, 5), dy = numbers(2 * 9, 3);
  Rows dw(w.size());
  const Normed n = rms_norm(x, w, 0);
  const Rows dx = rms_norm_backward(n, dy, w, dw);
  for (std::size_t first = 0; first < x.size(); first += 9) {
    float along = 0;
    for (std::size_t i = first; i < first + 9; ++i) along += dx[i] * x[i];
    EXPECT_NEAR(along, 0, 1e-6);
  }
  EXPECT_NEAR(product(dw, w), product(dy, n.y), 1e-5);
}

TEST(VisionLayers, GeluSlopesAreDifferences) {
  const Rows x = numbers(26, 5), one(26, 1.0F);
  for (const bool tanh_form : {false, true}) {
    const Rows slope = gelu_backward(x, one, tanh_form);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Rows y = gelu({x[i] + 0x1p-7F, x[i] - 0x1p-7F}, tanh_form);
      EXPECT_NEAR(slope[i], (y[0] - y[1]) * 0x1p6F, 1e-4) << x[i];
    }
  }
}

TEST(VisionLayers, AttentionMovesByItsGradient) {
  const Heads heads{4, 2, 4};
  const Rows q = numbers(32, 7), k = numbers(32, 3), v = numbers(32, 5), d_o = numbers(32, 11);
  const Attention a = attend(heads, q, k, v);
  for (std::size_t row = 0; row < a.p.size(); row += 4)
    EXPECT_NEAR(a.p[row] + a.p[row + 1] + a.p[row + 2] + a.p[row + 3], 1, 1e-6);
  const AttentionGradients g = attend_backward(heads, q, k, v, a, d_o);
  EXPECT_NEAR(product(g.v, v), product(d_o, a.o), 1e-5);  // o is linear in v
  const auto moved = [&](std::size_t i, float by, Rows which) {
    which[i] += by;
    return which;
  };
  constexpr float h = 0x1p-6F;
  for (const std::size_t i : {0U, 9U, 30U}) {
    const float up = product(d_o, attend(heads, moved(i, h, q), k, v).o);
    const float down = product(d_o, attend(heads, moved(i, -h, q), k, v).o);
    EXPECT_NEAR(g.q[i], (up - down) / (2 * h), 1e-4);
    const float k_up = product(d_o, attend(heads, q, moved(i, h, k), v).o);
    const float k_down = product(d_o, attend(heads, q, moved(i, -h, k), v).o);
    EXPECT_NEAR(g.k[i], (k_up - k_down) / (2 * h), 1e-4);
  }
}

}  // namespace
}  // namespace parity::vision_kernel
