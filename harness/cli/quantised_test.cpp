#include "harness/cli/quantised.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/registry.hpp"

namespace parity::cli {
namespace {

// 7 is beyond 6 and 0.2 below a quarter, under a scale of one.
TEST(Quantised, ABlockOfMxfp4) {
  Case c{.op = "quantize", .sizes = {{"M", 1, {}}, {"K", 32, {}}}, .fill = "normal"};
  c.options = {{"chain", "mx_torchao"}, {"elem", "e2m1"}, {"mode", "floor"}, {"dequant", "1"}};
  std::vector<double> x(32, 0);
  x[0] = 7, x[1] = -0.2, x[2] = 1;
  Tensors inputs, results;
  inputs.add(make_tensor(registry().op_or_throw("quantize").inputs(c).at(0), x));
  for (const ExpectedTensor& t : registry().chain("mx_torchao")->quantize(c, inputs, "").tensors)
    results.add(t.bits.empty() ? make_tensor(t.spec, t.value) : Tensor{t.spec, t.bits});
  const auto q = quantised(c, inputs, results);
  ASSERT_TRUE(q);
  EXPECT_EQ(q->format, "e2m1");
  EXPECT_EQ(q->elements, 32);
  const auto count = [&](double value) {
    return q->counts.at(
        static_cast<std::size_t>(std::ranges::find(q->values, value) - q->values.begin()));
  };
  EXPECT_EQ(count(6), 1);
  EXPECT_EQ(count(1), 1);
  EXPECT_EQ(count(0), 30);
  EXPECT_DOUBLE_EQ(q->saturated.value_or(0), 1.0 / 32);
  EXPECT_DOUBLE_EQ(q->underflowed.value_or(0), 1.0 / 32);
  EXPECT_NEAR(q->sqnr.value_or(0), 10 * std::log10(50.04 / 1.04), 1e-6);
  const auto ceil =
      std::ranges::find(q->others, "mx_torchao[elem=e2m1,mode=ceil]", &reports::OtherChain::chain);
  ASSERT_NE(ceil, q->others.end());
  EXPECT_EQ(ceil->scales, 1);
  EXPECT_DOUBLE_EQ(ceil->codes, 2.0 / 32);  // 7/2 and 1/2; -0.1 is -0 as -0.2 was
}

TEST(Quantised, OneRecordOfEachChain) {
  QuantisedChoice choice;
  CaseRecord r{.op = "quantize", .options = {{"chain", "a"}}, .check = "parity", .status = "pass"};
  EXPECT_TRUE(choice.takes(r));
  EXPECT_FALSE(choice.takes(r));
  r.options["swizzle"] = "1";  // the same numbers
  EXPECT_FALSE(choice.takes(r));
  r.options["mode"] = "ceil";
  r.check = "exact";  // no noise: its data are corners
  EXPECT_FALSE(choice.takes(r));
  r.status = "fail";
  EXPECT_TRUE(choice.takes(r));
}

}  // namespace
}  // namespace parity::cli
