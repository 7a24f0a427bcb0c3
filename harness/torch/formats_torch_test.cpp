// Codes and values against LibTorch's conversions between tensors.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// All upper halves with what lies beside a tie of bf16 below them, and a stride over all patterns.
std::vector<float> floats() {
  std::vector<float> values;
  for (std::uint32_t top = 0; top < 65536; ++top) {
    for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      values.push_back(std::bit_cast<float>((top << 16) | low));
    }
  }
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 2039) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

template <class Code, class T>
std::vector<Code> converted(std::vector<T>& values, at::ScalarType from, at::ScalarType to) {
  const at::Tensor t =
      at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, from);
  const at::Tensor u = t.to(to).contiguous();
  std::vector<Code> codes(values.size());
  std::memcpy(codes.data(), u.data_ptr(), codes.size() * sizeof(Code));
  return codes;
}

bool same(float a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(static_cast<double>(a)) == std::bit_cast<std::uint64_t>(b);
}

template <class Code>
void expect_every_code(Dtype dtype, at::ScalarType type) {
  std::vector<Code> codes(std::size_t{1} << (8 * sizeof(Code)));
  std::iota(codes.begin(), codes.end(), Code{0});
  const auto values = converted<float>(codes, type, at::kFloat);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    ASSERT_TRUE(same(values[i], decode(dtype, i))) << name(dtype) << " " << i << " " << values[i];
  }
}

TEST(FormatsTorch, EveryCodeDecodesAlike) {
  expect_every_code<std::uint16_t>(Dtype::BF16, at::kBFloat16);
  expect_every_code<std::uint16_t>(Dtype::F16, at::kHalf);
  expect_every_code<std::uint8_t>(Dtype::E4M3, at::kFloat8_e4m3fn);
  expect_every_code<std::uint8_t>(Dtype::E5M2, at::kFloat8_e5m2);
  expect_every_code<std::uint8_t>(Dtype::E8M0, at::kFloat8_e8m0fnu);
}

// Codes of floats agree, but for the payloads and signs of NaN.
template <class Code>
void expect_floats(Dtype dtype, at::ScalarType type) {
  std::vector<float> values = floats();
  const auto codes = converted<Code>(values, at::kFloat, type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t own = encode(dtype, static_cast<double>(values[i]));
    if (std::isnan(decode(dtype, own))) {
      ASSERT_TRUE(std::isnan(decode(dtype, codes[i]))) << name(dtype) << " " << values[i];
    } else {
      ASSERT_EQ(own, codes[i]) << name(dtype) << " " << values[i];
    }
  }
}

TEST(FormatsTorch, FloatsEncodeAlike) {
  expect_floats<std::uint16_t>(Dtype::BF16, at::kBFloat16);
  expect_floats<std::uint16_t>(Dtype::F16, at::kHalf);
  expect_floats<std::uint8_t>(Dtype::E4M3, at::kFloat8_e4m3fn);
  expect_floats<std::uint8_t>(Dtype::E5M2, at::kFloat8_e5m2);
}

// The same for scales, with one exception: between 2^-127 and 1.5 * 2^-127, subnormal floats,
// LibTorch gives the farther neighbour, 2^-126.
TEST(FormatsTorch, ScalesEncodeAlikeAboveTheSubnormals) {
  std::vector<float> values = floats();
  const auto codes = converted<std::uint8_t>(values, at::kFloat, at::kFloat8_e8m0fnu);
  int farther = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t own = encode(Dtype::E8M0, static_cast<double>(values[i]));
    const float magnitude = std::fabs(values[i]);
    if (magnitude > 0x1p-127f && magnitude < 0x1.8p-127f) {
      ASSERT_EQ(own, 0u);
      ASSERT_EQ(codes[i], 1u);
      ++farther;
    } else {
      ASSERT_EQ(own, codes[i]) << values[i];
    }
  }
  EXPECT_GT(farther, 0);
}

// From double, LibTorch goes through float and so rounds twice; encode() does not.
TEST(FormatsTorch, DoublesGoThroughFloatThere) {
  const Rng rng{.seed = 8, .stream = 0};
  std::vector<double> values(1 << 20);
  rng.fill_normal(0, values);
  for (std::size_t i = 0; i < values.size(); i += 16) {  // just above a tie of bf16
    values[i] = round_to(Dtype::BF16, values[i], Rounding::TowardZero);
    const double tie = std::ldexp(1.0, std::ilogb(values[i]) - 8);
    values[i] += std::copysign(tie * (1 + 0x1p-30), values[i]);
  }
  const auto codes = converted<std::uint16_t>(values, at::kDouble, at::kBFloat16);
  int different = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(encode(Dtype::BF16, round_to(Dtype::F32, values[i])), codes[i]) << values[i];
    different += encode(Dtype::BF16, values[i]) != codes[i];
  }
  EXPECT_GT(different, 1 << 13);  // half of the planted ones: the tie goes to the even neighbour
}

}  // namespace
}  // namespace parity
