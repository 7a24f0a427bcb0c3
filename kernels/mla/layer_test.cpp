// Latent norms of the layer against the formulas at one row.
#include "kernels/mla/layer.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace parity::mla_kernel {
namespace {

Matrix row(std::initializer_list<float> values) {
  Matrix m(1, std::ssize(values));
  std::ranges::copy(values, m.row(0));
  return m;
}

TEST(MlaLayer, NormDividesByTheRootOfTheMeanSquare) {
  const Matrix y = normed(row({3, -4, 0, 5}), row({1, 2, 1, 1}), 0);
  const float rms = std::sqrt(50.0F / 4);
  EXPECT_FLOAT_EQ(y.row(0)[0], 3 / rms);
  EXPECT_FLOAT_EQ(y.row(0)[1], -8 / rms);
  EXPECT_FLOAT_EQ(y.row(0)[3], 5 / rms);
  EXPECT_EQ(normed(row({0, 0}), row({1, 1}), 1).row(0)[0], 0);
}

// x of one size: dx = (g - x mean(g x)) / size with x = +-1.
TEST(MlaLayer, NormBackwardTakesOutWhatIsAlongX) {
  float dw[2] = {};
  const Matrix d = normed_backward(row({2, -2}), row({1, 5}), row({1, 1}), 0, Dtype::F32, dw);
  EXPECT_EQ(d.row(0)[0], 1.5F);  // (1 + 2) / 2
  EXPECT_EQ(d.row(0)[1], 1.5F);  // (5 - 2) / 2
  EXPECT_EQ(dw[0], 1);
  EXPECT_EQ(dw[1], -5);
}

}  // namespace
}  // namespace parity::mla_kernel
