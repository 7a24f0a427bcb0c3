// Products of padded matrices against plain sums, at extents that are no multiples of a register.
#include "kernels/moe/matrix.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace parity::moe_kernel {
namespace {

Matrix counted(std::int64_t rows, std::int64_t cols, int step) {
  Matrix m(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      m.row(r)[c] = static_cast<float>((r * cols + c) * step % 7 - 3);  // sums are exact
  return m;
}

TEST(MoeMatrix, ProductsAreThoseOfPlainSums) {
  const Matrix x = counted(37, 21, 3), w = counted(19, 21, 5), y = counted(37, 19, 2);
  for (const int threads : {1, 3}) {
    const Matrix xw = times_transposed(threads, x, w), yw = times(threads, y, w);
    for (std::int64_t r = 0; r < 37; ++r) {
      for (std::int64_t n = 0; n < 19; ++n) {
        float sum = 0;
        for (std::int64_t k = 0; k < 21; ++k) sum += x.row(r)[k] * w.row(n)[k];
        ASSERT_EQ(xw.row(r)[n], sum);
      }
      for (std::int64_t k = 0; k < 21; ++k) {
        float sum = 0;
        for (std::int64_t n = 0; n < 19; ++n) sum += y.row(r)[n] * w.row(n)[k];
        ASSERT_EQ(yw.row(r)[k], sum);
      }
    }
  }
}

TEST(MoeMatrix, RowsOfAGroupAreContracted) {
  const Matrix y = counted(37, 35, 2), x = counted(37, 21, 3);
  std::vector<float> out(35 * 21);
  transposed_times(2, y, x, 5, 23, Dtype::F32, out.data());
  for (std::int64_t n = 0; n < 35; ++n)
    for (std::int64_t k = 0; k < 21; ++k) {
      float sum = 0;
      for (std::int64_t r = 5; r < 23; ++r) sum += y.row(r)[n] * x.row(r)[k];
      ASSERT_EQ(out[static_cast<std::size_t>(n * 21 + k)], sum);
    }
  transposed_times(2, y, x, 9, 9, Dtype::F32, out.data());
  for (const float value : out) ASSERT_EQ(value, 0) << "an empty group has a gradient of zero";
}

TEST(MoeMatrix, TransposedIsTransposed) {
  const Matrix x = counted(18, 33, 4), t = transposed(x);
  ASSERT_EQ(t.rows, 33);
  ASSERT_EQ(t.cols, 18);
  ASSERT_EQ(static_cast<std::int64_t>(t.data.size()), t.rows * t.ld);
  for (std::int64_t r = 0; r < 18; ++r)
    for (std::int64_t c = 0; c < 33; ++c) ASSERT_EQ(t.row(c)[r], x.row(r)[c]);
}

}  // namespace
}  // namespace parity::moe_kernel
