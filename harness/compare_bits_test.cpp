// Codes, scales and ids: bits, with a mask, classified.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/walk.hpp"

namespace parity {
namespace {

using ::testing::HasSubstr;

ExpectedTensor codes(std::vector<double> before_rounding) {
  ExpectedTensor t{.spec = {.name = "codes",
                            .role = Role::Codes,
                            .dtype = Dtype::E2M1,
                            .dims = {{"N", 1}, {"K", 8}}}};
  t.bits = make_tensor(t.spec, before_rounding).bytes;
  t.value = std::move(before_rounding);
  return t;
}

TensorRecord judged(const ExpectedTensor& expected, const Tensor& observed) {
  TensorRecord record = compare({.expected = expected, .observed = observed});
  judge_tensor(record);
  return record;
}

TEST(Discrete, EqualBitsPass) {
  const ExpectedTensor t = codes({0, 0.5, 1, -1.5, 2, 3, 4, 6});
  const TensorRecord r = judged(t, Tensor{t.spec, t.bits});
  EXPECT_EQ(r.status, "pass");
  EXPECT_EQ(r.views[0].view, "discrete");
  EXPECT_EQ(r.bound_kind, "exact");
}

TEST(Discrete, TiesNeighboursAndOthersAreToldApart) {
  const ExpectedTensor t = codes({2.5, 0.5, 1, -1.5, 2, 3, 4, 6});  // 2.5 is a tie, which went to 2
  Tensor got{t.spec, t.bits};
  store_code(Dtype::E2M1, got.bytes.data(), 0, encode(Dtype::E2M1, 3.0));
  TensorRecord r = judged(t, got);
  EXPECT_EQ(r.status, "fail");
  EXPECT_EQ(r.view, "discrete");
  EXPECT_THAT(r.views[0].detail,
              HasSubstr("1 of 8 elements differ: 1 ties, 0 neighbouring codes, 0 other"));
  store_code(Dtype::E2M1, got.bytes.data(), 1, encode(Dtype::E2M1, 1.0));
  store_code(Dtype::E2M1, got.bytes.data(), 2, encode(Dtype::E2M1, -6.0));
  r = judged(t, got);
  EXPECT_THAT(r.views[0].detail, HasSubstr("1 ties, 1 neighbouring codes, 1 other"));
  EXPECT_EQ(r.mismatches, 3);
  EXPECT_EQ(r.worst->letters, "n=0,k=2");
  EXPECT_FALSE(r.worst->base) << "equality has no base to compare with";
}

TEST(Discrete, TheMaskLeavesElementsOpen) {
  ExpectedTensor t = codes({0, 0.5, 1, -1.5, 2, 3, 4, 6});
  t.ignore.assign(8, 0);
  t.ignore[7] = 1;
  Tensor got{t.spec, t.bits};
  store_code(Dtype::E2M1, got.bytes.data(), 7, 0);
  EXPECT_EQ(judged(t, got).status, "pass");
  t.ignore.assign(8, 1);
  EXPECT_EQ(judged(t, got).status, "unproven") << "nothing is left to compare";
}

TEST(Discrete, NanScalesAreEqualWhateverTheirSign) {
  ExpectedTensor t{
      .spec = {.name = "scales", .role = Role::Scales, .dtype = Dtype::E4M3, .dims = {{"N", 2}}}};
  t.value = {std::nan(""), 1};
  t.bits = {std::byte{0x7F}, std::byte{0x38}};
  Tensor got{t.spec, {std::byte{0xFF}, std::byte{0x38}}};
  EXPECT_EQ(judged(t, got).status, "pass");
  got.bytes[0] = std::byte{0x7E};  // 448: a finite scale hides the NaN
  EXPECT_EQ(judged(t, got).status, "fail");
  got.bytes = {std::byte{0x7F}, std::byte{0x7F}};
  EXPECT_EQ(judged(t, got).status, "fail");
}

TEST(Discrete, AFloatOutputGivenByItsBitsIsExact) {
  ExpectedTensor t{
      .spec = {.name = "dequant", .role = Role::Output, .dtype = Dtype::F32, .dims = {{"N", 3}}}};
  t.value = {1, 2, 3};
  t.bits = make_tensor(t.spec, t.value).bytes;
  Tensor got{t.spec, t.bits};
  EXPECT_EQ(judged(t, got).views[0].view, "exact");
  got.as<float>()[1] = 2.0000002F;
  EXPECT_EQ(judged(t, got).view, "exact");
}

}  // namespace
}  // namespace parity
