// The FP8 chains against known answers: least scales, special amaxes, two delayed steps, the
// gradient of Float8FakeQuantizer.
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "references/fp8/scaled.hpp"

namespace parity::fp8 {
namespace {

const float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

Case problem(const Options& options, std::int64_t rows, std::int64_t columns, Dtype dtype) {
  Case c;
  c.op = "quantize";
  c.dtype = dtype;
  c.sizes = Sizes{{"M", rows, {}}, {"K", columns, {}}, {"N", 3, {}}};
  c.options = options;
  return c;
}

Expected run(const Options& options, std::int64_t rows, const std::vector<double>& x,
             Dtype dtype = Dtype::F32, const std::vector<std::vector<double>>& more = {}) {
  const Case c = problem(options, rows, static_cast<std::int64_t>(x.size()) / rows, dtype);
  const std::vector<TensorSpec> specs = registry().op_or_throw("quantize").inputs(c);
  Tensors inputs;
  inputs.add(make_tensor(specs.front(), x));
  for (std::size_t i = 0; i < more.size(); ++i) inputs.add(make_tensor(specs[i + 1], more[i]));
  return registry().chain(c.options.get("chain", ""))->quantize(c, inputs, "");
}

std::uint32_t bits_of(const Expected& e, std::string_view name) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(e.find(name)->value.front()));
}

std::vector<int> codes_of(const Expected& e) {
  std::vector<int> codes;
  for (const std::byte b : e.find("codes")->bits) codes.push_back(std::to_integer<int>(b));
  return codes;
}

TEST(Fp8Blockwise, ZeroTiles) {
  const std::vector<double> zeros(128 * 128, 0);
  const auto inverse = [&](const char* function) {
    return bits_of(
        run({{"chain", "fp8_torchao_blockwise"}, {"function", function}}, 128, zeros, Dtype::BF16),
        "inverse_scale");
  };
  EXPECT_EQ(inverse("lhs"), 0x2720D7C5U);
  EXPECT_EQ(inverse("weight"), 0x2720D7C5U);
  EXPECT_EQ(inverse("rhs"), 0x27212492U);
}

TEST(Fp8CurrentScaling, SpecialAmaxes) {
  const auto inverse = [](double amax, const Options& more = {}) {
    Options options{{"chain", "fp8_te_current_scaling"}};
    for (const auto& [name, value] : more.map()) options.set(name, value);
    return run(options, 1, {1, amax}).find("scale_inv")->value.front();
  };
  EXPECT_EQ(run({{"chain", "fp8_te_current_scaling"}}, 1, {0, 0}).find("scale_inv")->value[0], 1);
  EXPECT_EQ(inverse(static_cast<double>(kInfinity)), static_cast<double>(kInfinity));
  EXPECT_TRUE(std::isnan(inverse(static_cast<double>(kNan))));
  EXPECT_EQ(inverse(static_cast<double>(kNan), {{"pow2", "1"}}), 2);
  EXPECT_EQ(inverse(448), 1);
  EXPECT_EQ(inverse(449, {{"pow2", "1"}}), 2);
  // No saturation: beside a NaN, 1000 / 2 lies beyond 464.
  const Expected e = run({{"chain", "fp8_te_current_scaling"}, {"pow2", "1"}}, 1,
                         {static_cast<double>(kNan), 1000});
  EXPECT_EQ(codes_of(e)[1], 0x7F);
}

TEST(Fp8Delayed, ScaleComesFromEarlierSteps) {
  const Options options{{"chain", "fp8_te_delayed"}, {"margin", "1"}};
  const Expected first = run(options, 1, {2, -7, 0.5, 1}, Dtype::F32, {{0, 3, 5}, {32}});
  EXPECT_EQ(codes_of(first), (std::vector{0x68, 0xF6, 0x58, 0x60}));  // 64, -224, 16, 32
  EXPECT_EQ(first.find("scale_inv")->value[0], 1.0 / 32);
  EXPECT_EQ(first.find("scale_next")->value[0], 32);  // 224 / 7
  EXPECT_EQ(first.find("history_next")->value, (std::vector<double>{0, 5, 7}));
  const Expected zero = run(options, 1, {0, 0}, Dtype::F32, {{0, 0, 0}, {32}});
  EXPECT_EQ(zero.find("scale_next")->value[0], 32);
}

TEST(Fp8Affine, ScaleInTheInputDtype) {
  const Options options{{"chain", "fp8_torchao_affine"}};
  EXPECT_EQ(run(options, 1, {3, 1}).find("scale")->value[0], static_cast<double>(3.0F / 448.0F));
  EXPECT_EQ(run(options, 1, {3, 1}, Dtype::BF16).find("scale")->value[0],
            round_to(Dtype::BF16, static_cast<double>(3.0F / 448.0F)));
  EXPECT_TRUE(std::isnan(run(options, 1, {0, 0}).find("fake_quant")->value[0]));
  EXPECT_EQ(run({{"chain", "fp8_torchao_affine"}, {"lb", "1e-12"}}, 1, {0, 0})
                .find("fake_quant")
                ->value[0],
            0);
}

// Away from the amax the gradient is e4m3(g s) / s exactly; there it also has the scale's.
TEST(Fp8Affine, GradientGoesThroughE4m3AndTheScale) {
  const Expected e = run({{"chain", "fp8_torchao_affine"}, {"grad", "1"}}, 1, {448, -100, 3.3},
                         Dtype::F32, {{1, 0.3, 1}});
  const ExpectedTensor& dx = *e.find("grads/x");  // s = 1
  EXPECT_EQ(dx.value[1], round_to(Dtype::E4M3, 0.3F));
  EXPECT_EQ(dx.value[2], 1);
  EXPECT_EQ(dx.scale[1], 0);
  EXPECT_EQ(dx.scale[2], 0);
  const double c = round_to(Dtype::E4M3, 0.3F);
  const double q = -96;  // e4m3(-100)
  const double ds = (448 + 0.3F * q + 3.25) - (448 + c * -100 + 3.3F);
  EXPECT_NEAR(dx.value[0], 1 + ds / 448, 1e-6);
  EXPECT_GT(dx.scale[0], 0);
}

TEST(Fp8Torchao, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(run({{"chain", "fp8_torchao"}, {"granularity", "block"}}, 1, {1, 2}).refused, "");
  EXPECT_NE(run({{"chain", "fp8_torchao"}, {"elem", "e3m4"}}, 1, {1, 2}).refused, "");
  EXPECT_NE(run({{"chain", "fp8_torchao_blockwise"}, {"function", "lhs"}}, 1, {1, 2}).refused, "");
}

}  // namespace
}  // namespace parity::fp8
