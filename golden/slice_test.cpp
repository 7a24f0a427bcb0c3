#include "golden/slice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "harness/failure.hpp"

namespace parity::golden {
namespace {

Tensor counted() {  // 2 x 3 x 4, element i holds i
  TensorSpec spec{.name = "x", .dtype = Dtype::F32, .dims = {{"a", 2}, {"b", 3}, {"c", 4}}};
  std::vector<double> values(24);
  std::iota(values.begin(), values.end(), 0.0);
  return make_tensor(spec, values);
}

TEST(Slice, WholeTensorWithoutARange) {
  EXPECT_EQ(part_of(counted(), "params/x").elements(), 24);
  EXPECT_EQ(whole_path("params/x[0:2]"), "params/x");
  EXPECT_EQ(whole_path("params/x"), "params/x");
}

TEST(Slice, RangesKeepTheirAxisAndIndicesDropIt) {
  const Tensor part = part_of(counted(), "params/x[1,0:2]");
  ASSERT_EQ(part.spec.dims.size(), 2u);
  EXPECT_THAT(part.widened(), ::testing::ElementsAre(12, 13, 14, 15, 16, 17, 18, 19));
  EXPECT_THAT(part_of(counted(), "x[0:2,2,1:3]").widened(), ::testing::ElementsAre(9, 10, 21, 22));
}

TEST(Slice, WhatLiesOutsideIsRefused) {
  for (const char* path :
       {"x[0:3]", "x[2]", "x[-1]", "x[1:0]", "x[0,0,0,0]", "x[a]", "x[0:1", "x[]1"})
    EXPECT_THROW(part_of(counted(), path), GoldenError) << path;
}

}  // namespace
}  // namespace parity::golden
