// MX against known answers: every e8m0 byte, scale bytes at the edges of the modes, the chains'
// corners, and every defect.
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

constexpr const char* kElements[] = {"e4m3", "e5m2", "e2m3", "e3m2", "e2m1"};
const float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

Expected run(const Options& options, const std::vector<float>& values, std::string_view fault = {},
             Dtype dtype = Dtype::F32) {
  Case c;
  c.op = "quantize";
  c.dtype = dtype;
  c.sizes = Sizes{{"M", 1, {}}, {"K", static_cast<std::int64_t>(values.size()), {}}};
  c.options = options;
  const std::vector<double> wide(values.begin(), values.end());
  Tensors inputs;
  inputs.add(make_tensor(registry().op_or_throw("quantize").inputs(c).front(), wide));
  return registry().chain(c.options.get("chain", ""))->quantize(c, inputs, fault);
}

std::vector<int> bytes_of(const Expected& expected, std::string_view name) {
  std::vector<int> bytes;
  for (const std::byte b : expected.find(name)->bits) bytes.push_back(std::to_integer<int>(b));
  return bytes;
}

Options torchao(const char* elem, const char* mode, const char* chain = "mx_torchao") {
  return {{"chain", chain}, {"elem", elem}, {"mode", mode}, {"dequant", "1"}};
}

int scale_byte(const Options& options, float amax) {
  std::vector<float> x(32, 0);
  x[7] = -amax;
  return bytes_of(run(options, x), "scales")[0];
}

TEST(E8m0, EveryByteAndItsReciprocal) {
  for (int b = 0; b < 255; ++b) {
    const auto byte = static_cast<std::uint8_t>(b);
    EXPECT_EQ(scale_value(byte), std::ldexp(1.0F, b - 127)) << b;
    EXPECT_EQ(reciprocal(byte), std::ldexp(1.0F, 127 - b)) << b;
    EXPECT_EQ(reciprocal(byte) * scale_value(byte), 1.0F) << b;
    EXPECT_EQ(rounded_up(scale_value(byte)), b);
  }
  EXPECT_TRUE(std::isnan(scale_value(0xFF)));
  EXPECT_TRUE(std::isnan(reciprocal(0xFF)));
  EXPECT_EQ(rounded_up(kInfinity), 0xFF);
  EXPECT_EQ(rounded_up(kNan), 0xFF);
  EXPECT_EQ(rounded_up(std::nextafter(0x1p-127F, 1.0F)), 1);
}

// Every slip of the tables is told apart by some byte.
TEST(E8m0, DefectsShowInTheTables) {
  for (const Defect d : {Defect::SpecialScales, Defect::NanSentinel, Defect::FlushedDecode}) {
    int wrong = 0;
    for (int b = 0; b < 256; ++b) {
      const float want = scale_value(static_cast<std::uint8_t>(b));
      const float got = scale_value(static_cast<std::uint8_t>(b), d);
      wrong += std::isnan(want) ? !std::isnan(got) : want != got;
    }
    EXPECT_GT(wrong, 0);
  }
  EXPECT_EQ(reciprocal(0, Defect::SpecialScales), 1.0F);
  EXPECT_EQ(reciprocal(254, Defect::SpecialScales), 0.0F);
  EXPECT_EQ(reciprocal(254, Defect::ExponentReciprocal), 0.0F);
}

float f(int i) { return static_cast<float>((37 * i + 11) % 64 - 32) / 8; }

TEST(Torchao, KnownScales) {
  std::vector<float> x(96, 0);
  for (int i = 0; i < 32; ++i) {
    x[static_cast<std::size_t>(i)] = f(i);
    x[static_cast<std::size_t>(32 + i)] = f(i) * 0x1p-7F;
  }
  for (int i = 0; i < 16; ++i) x[static_cast<std::size_t>(80 + i)] = f(i) * 0x1p-20F;
  x[5] = 5.25F;
  struct Known {
    const char* elem;
    const char* mode;
    std::vector<int> bytes;
  };
  for (const Known& known :
       {Known{"e2m1", "floor", {127, 120, 106}}, Known{"e2m1", "rceil", {127, 120, 107}},
        Known{"e2m1", "even", {127, 120, 107}}, Known{"e2m1", "ceil", {128, 120, 107}},
        Known{"e4m3", "floor", {121, 114, 100}}, Known{"e4m3", "rceil", {121, 114, 101}},
        Known{"e4m3", "even", {121, 114, 100}}, Known{"e4m3", "ceil", {122, 114, 101}}})
    EXPECT_EQ(bytes_of(run(torchao(known.elem, known.mode), x), "scales"), known.bytes)
        << known.elem << " " << known.mode;
}

TEST(Torchao, CeilingAtEveryMaximum) {
  for (const char* elem : kElements) {
    const Element& e = *element_of(elem);
    for (int k = -115; k < 127 - e.max_pow2; ++k) {
      const float amax = std::ldexp(e.max, k);
      EXPECT_EQ(scale_byte(torchao(elem, "rceil"), amax), k + 127) << elem << " " << k;
      EXPECT_EQ(scale_byte(torchao(elem, "rceil"), std::nextafter(amax, kInfinity)), k + 128)
          << elem << " " << k;
    }
    // The release takes log2f, which cannot tell what lies just above for large exponents.
    const float above = std::nextafter(std::ldexp(e.max, 40), kInfinity);
    EXPECT_EQ(scale_byte(torchao(elem, "rceil", "mx_torchao_018"), above), 40 + 127) << elem;
  }
}

TEST(Torchao, EdgesOfTheTwoRevisions) {
  EXPECT_EQ(scale_byte(torchao("e4m3", "even"), std::bit_cast<float>(0x7F780000U)), 255);
  EXPECT_EQ(scale_byte(torchao("e5m2", "even"), std::bit_cast<float>(0x7F700000U)), 255);
  EXPECT_EQ(scale_byte(torchao("e2m1", "even"), std::bit_cast<float>(0x7F600000U)), 255);
  EXPECT_EQ(scale_byte(torchao("e2m1", "even"), std::bit_cast<float>(0x7F5FFFFFU)), 252);
  EXPECT_EQ(scale_byte(torchao("e4m3", "floor"), kInfinity), 255);
  EXPECT_EQ(scale_byte(torchao("e4m3", "floor", "mx_torchao_018"), kInfinity), 247);
  EXPECT_EQ(scale_byte(torchao("e4m3", "rceil", "mx_torchao_018"), kInfinity), 254);
  EXPECT_EQ(scale_byte(torchao("e4m3", "rceil", "mx_torchao_018"), kNan), 255);
  // A block of byte 0: kept, halved, zeroed.
  std::vector<float> tiny(32, 0x1p-120F);
  const auto first = [&](const Options& options) {
    return run(options, tiny).find("dequant")->value[0];
  };
  EXPECT_EQ(first(torchao("e4m3", "floor")), 0x1p-120);
  EXPECT_EQ(first(torchao("e4m3", "floor", "mx_torchao_018")), 0x1p-121);
  EXPECT_EQ(first(torchao("e4m3", "rceil", "mx_torchao_018")), 0);
}

TEST(Torchao, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(run(torchao("e4m4", "floor"), std::vector<float>(32, 1)).refused, "");
  EXPECT_NE(run(torchao("e4m3", "down"), std::vector<float>(32, 1)).refused, "");
  EXPECT_NE(run(torchao("e4m3", "floor"), std::vector<float>(40, 1)).refused, "");
}

TEST(Others, Corners) {
  std::vector<float> x(32, 0);
  x[0] = 1;
  x[1] = -0.0F;
  x[2] = 0.25F * 0.25F;  // a midpoint under the scale 2^-2 of an amax of 1
  const auto code = [&](const char* chain, std::size_t i) {
    const int byte = bytes_of(run({{"chain", chain}}, x), "codes")[i / 2];
    return i % 2 == 0 ? byte & 15 : byte >> 4;
  };
  EXPECT_EQ(code("mxfp4_modelopt", 1), 8);
  EXPECT_EQ(code("mxfp4_modelopt", 3), 8);
  EXPECT_EQ(code("mxfp4_te_pow2", 1), 0);
  EXPECT_EQ(code("mxfp4_fouroversix", 1), 0);
  EXPECT_EQ(code("mx_compressed_tensors", 1), 0);
  EXPECT_EQ(code("mxfp4_modelopt", 2), 0);
}

// microxcaling adds 1/2 in the input dtype: just below 1/2, bf16 rounds the sum to 1.
TEST(Microxcaling, HalfIsAddedInTheInputDtype) {
  std::vector<float> x(32, 0);
  x[0] = 1;                  // e = 0 for int8
  x[1] = 0.498046875F / 64;  // 0x1.FEp-2 of the last place
  const Options options{{"chain", "mx_microxcaling"}, {"elem", "int8"}, {"round", "nearest"}};
  EXPECT_EQ(run(options, x).find("dequant")->value[1], 0);
  EXPECT_EQ(run(options, x, {}, Dtype::BF16).find("dequant")->value[1], 1.0 / 64);
}

TEST(Microxcaling, LogarithmRoundedToBf16) {
  std::vector<float> x(32, 0);
  x[0] = 127.5F;
  x[1] = 1;
  const Options options{{"chain", "mx_microxcaling"}, {"elem", "e2m1"}, {"round", "even"}};
  EXPECT_EQ(run(options, x).find("dequant")->value[1], 0);  // step 2^6 / 4 / 2 = 8
  EXPECT_EQ(run(options, x).find("dequant")->value[0], 96);
  EXPECT_EQ(run(options, x, {}, Dtype::BF16).find("dequant")->value[0], 128);  // counts as 2^7
}

}  // namespace
}  // namespace parity::mx
