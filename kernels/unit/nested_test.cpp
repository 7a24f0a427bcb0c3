// A kernel within another: tensors by the op's names, what follows from the sizes, errors.
#include "kernels/unit/nested.hpp"

#include <gtest/gtest.h>

#include "harness/failure.hpp"

namespace parity::unit_kernel {
namespace {

Case convolution() {
  Case c;
  c.sizes = Sizes::parse("B1,T2+1,D1,W2");
  c.options = Options::parse("act=none");
  return c;
}

TEST(Nested, RunsAKernelForwardAndBack) {
  Nested conv("short_conv.rows", convolution(), 1);
  conv.set("x", std::vector<float>{1, 2, 4});
  conv.set("weight", std::vector<float>{10, 1});  // the token before, the token itself
  conv.forward();
  const std::span<const float> y = conv.out("y");
  EXPECT_EQ(std::vector(y.begin(), y.end()), (std::vector<float>{1, 12, 4}));  // two sequences
  conv.set("cotangents/y", std::vector<float>{1, 1, 1});
  conv.backward();
  const std::span<const float> dx = conv.out("grads/x");
  EXPECT_EQ(std::vector(dx.begin(), dx.end()), (std::vector<float>{11, 1, 1}));
}

TEST(Nested, WrongNamesAndSizesAreRefused) {
  EXPECT_THROW(Nested("short_conv.none", convolution(), 1), Failure);
  Nested conv("short_conv.rows", convolution(), 1);
  EXPECT_THROW(conv.set("y", std::vector<float>(3)), Failure);
  EXPECT_THROW(conv.set("x", std::vector<float>(2)), Failure);
  EXPECT_THROW(conv.out("grads/none"), Failure);
}

}  // namespace
}  // namespace parity::unit_kernel
