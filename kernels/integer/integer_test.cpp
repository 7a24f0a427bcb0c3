// Integer loops: every instruction set gives the same bits, tails of groups included; pairs are
// packed with the even element low.
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "kernels/integer/matrix.hpp"

namespace parity::integer_kernel {
namespace {

struct Outcome {
  std::vector<std::int8_t> codes;
  std::vector<std::uint8_t> packed;
  std::vector<std::byte> scales, values;
  std::vector<std::int32_t> zeros;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const Steps& steps, Dtype dtype, Mapping mapping, std::int64_t group, int threads) {
  constexpr std::int64_t kRows = 33, kColumns = 120;
  std::vector<double> wide(kRows * kColumns);
  Rng{11, 3}.fill_normal(0, wide);
  for (std::size_t i = 0; i < wide.size(); i += 7) wide[i] = 0.5 * static_cast<double>(i % 5);
  const Tensor x =
      make_tensor({.name = "x", .dtype = dtype, .dims = {{"M", kRows}, {"K", kColumns}}}, wide);
  Outcome out;
  const auto n = static_cast<std::size_t>(kRows * kColumns);
  out.codes.resize(n), out.packed.resize(n / 2), out.values.resize(4 * n);
  out.scales.resize(4 * n / static_cast<std::size_t>(group));
  out.zeros.resize(n / static_cast<std::size_t>(group));
  quantise_matrix({.mapping = mapping,
                   .dtype = dtype,
                   .scale_dtype = dtype,
                   .qmin = -8,
                   .qmax = 7,
                   .x = x.bytes.data(),
                   .rows = kRows,
                   .columns = kColumns,
                   .group = group,
                   .threads = threads},
                  steps,
                  {.codes = out.codes.data(),
                   .packed = out.packed.data(),
                   .scales = out.scales.data(),
                   .zeros = out.zeros.data(),
                   .values = out.values.data()});
  return out;
}

TEST(IntegerLoops, OneAnswerForAllInstructionSetsAndThreads) {
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16})
    for (const Mapping mapping : {Mapping::Symmetric, Mapping::NoClipping, Mapping::Asymmetric})
      for (const std::int64_t group : {8, 24, 120}) {
        const Outcome plain = run(kPlainSteps, dtype, mapping, group, 1);
        EXPECT_EQ(plain, run(kPlainSteps, dtype, mapping, group, 3));
        if (missing_capability("avx2").empty()) {
          EXPECT_EQ(plain, run(kAvx2Steps, dtype, mapping, group, 2));
        }
        if (missing_capability("avx512").empty()) {
          EXPECT_EQ(plain, run(kAvx512Steps, dtype, mapping, group, 2));
        }
      }
}

TEST(IntegerLoops, PairsHaveTheEvenElementLow) {
  const std::vector<std::int8_t> codes = {-8, 7, 3, -1};
  std::vector<std::uint8_t> bytes(2);
  kPlainSteps.pack(codes.data(), 4, bytes.data());
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0x78, 0xF3}));
}

TEST(IntegerLoops, ExtremesOfANanAreNan) {
  const std::vector<float> x = {1, 2, std::nanf(""), 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8};
  for (const Steps* steps : {&kPlainSteps}) {
    float low = 0, high = 0;
    steps->extremes(x.data(), std::ssize(x), &low, &high);
    EXPECT_TRUE(std::isnan(low) && std::isnan(high));
  }
}

}  // namespace
}  // namespace parity::integer_kernel
