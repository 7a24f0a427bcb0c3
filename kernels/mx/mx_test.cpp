// The vector steps against the scalar ones over patterns that matter, and the scalar ones against
// the op's reference: every format and mode, both dtypes, ragged counts, any number of threads.
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "kernels/mx/frame.hpp"

namespace parity::mx_kernel {
namespace {

constexpr Dtype kElements[] = {Dtype::E4M3, Dtype::E5M2, Dtype::E2M3, Dtype::E3M2, Dtype::E2M1};
constexpr Mode kModes[] = {Mode::Floor, Mode::Ceil, Mode::Even, Mode::Rceil};

std::vector<const Steps*> available() {
  std::vector<const Steps*> list;
  if (missing_capability("avx2").empty()) list.push_back(&kAvx2Steps);
  if (missing_capability("avx512").empty()) list.push_back(&kAvx512Steps);
  return list;
}

// Blocks of all sizes, random bits, zeros of both signs, subnormals, one element far above.
std::vector<float> patterns(std::int64_t blocks) {
  std::vector<float> x;
  const Rng rng{17, 0};
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float size = std::ldexp(1.0F, static_cast<int>(b * 13 % 250) - 125);
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const auto index = static_cast<std::uint64_t>(b * kBlock + i);
      float v = static_cast<float>(rng.normal(index)) * size;
      if (b % 6 == 1) v = std::bit_cast<float>(static_cast<std::uint32_t>(rng.bits(index)));
      if (b % 6 == 2) v = i % 3 == 0 ? -0.0F : 0.0F;
      if (b % 6 == 3) v = static_cast<float>(i) * 1e-40F;
      if (b % 6 == 4)
        v = std::ldexp(static_cast<float>(i - 16) / 16, static_cast<int>(b % 40) - 20);
      if (b % 12 == 5 && i == b % kBlock) v = size * 64;
      x.push_back(v);
    }
  }
  return x;
}

struct Result {
  std::vector<std::uint8_t> codes, scales;
  std::vector<std::uint32_t> values;  // f32 bits, one NaN for all
};

Result run(const Steps& steps, const Plan& plan, Dtype dtype, const std::byte* x,
           std::int64_t blocks, int threads) {
  const auto n = static_cast<std::size_t>(blocks);
  const auto bytes = static_cast<std::size_t>(code_bytes(plan.elem));
  Result r{std::vector<std::uint8_t>(bytes * n), std::vector<std::uint8_t>(n), {}};
  const Job job{.dtype = dtype, .blocks = blocks, .threads = threads};
  quantise_blocks(job, steps, plan, x, r.codes.data(), r.scales.data());
  for (std::size_t b = 0; b < n; ++b)  // nobody defines codes of NaN blocks
    if (r.scales[b] == 0xFF && plan.elem != Dtype::E4M3 && plan.elem != Dtype::E5M2)
      std::fill_n(r.codes.begin() + static_cast<std::ptrdiff_t>(bytes * b), bytes, std::uint8_t{0});
  if (r.scales.empty()) return r;
  std::vector<float> values(32 * n);
  std::vector<std::uint16_t> narrow(32 * n);
  Job as = job;
  as.dtype = Dtype::F32;
  dequantise_blocks(as, steps, plan, r.codes.data(), r.scales.data(),
                    reinterpret_cast<std::byte*>(values.data()));
  as.dtype = Dtype::BF16;
  dequantise_blocks(as, steps, plan, r.codes.data(), r.scales.data(),
                    reinterpret_cast<std::byte*>(narrow.data()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    r.values.push_back(std::isnan(values[i]) ? 1U : std::bit_cast<std::uint32_t>(values[i]));
    r.values.push_back(std::isnan(float_from_bf16(narrow[i])) ? 1U : narrow[i]);
  }
  return r;
}

void expect_equal(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.scales, b.scales) << what;
  EXPECT_EQ(a.codes.size(), b.codes.size());
  for (std::size_t i = 0; i < a.codes.size(); ++i)  // NaN codes differ in their sign alone
    if ((a.codes[i] & 0x7F) != 0x7F || (b.codes[i] & 0x7F) != 0x7F) {
      ASSERT_EQ(a.codes[i], b.codes[i]) << what << " byte " << i;
    }
  EXPECT_EQ(a.values, b.values) << what;
}

TEST(MxSteps, LanesEqualScalars) {
  constexpr std::int64_t kBlocks = 530;  // full groups, a part of one, threads
  const std::vector<float> x = patterns(kBlocks);
  std::vector<std::uint16_t> h;
  for (const float v : x) h.push_back(bf16_from_float(v));
  for (const Dtype elem : kElements)
    for (const Mode mode : kModes)
      for (const Dtype dtype : {Dtype::F32, Dtype::BF16}) {
        const Plan plan{.elem = elem, .mode = mode};
        const auto* data = dtype == Dtype::BF16 ? reinterpret_cast<const std::byte*>(h.data())
                                                : reinterpret_cast<const std::byte*>(x.data());
        const Result want = run(kScalarSteps, plan, dtype, data, kBlocks, 1);
        const std::string what = std::string(name(elem)) + " mode " +
                                 std::to_string(static_cast<int>(mode)) + " " +
                                 std::string(name(dtype));
        for (const Steps* steps : available())
          for (const int threads : {1, 2, 5})
            expect_equal(run(*steps, plan, dtype, data, kBlocks, threads), want, what);
      }
}

TEST(MxSteps, AnyNumberOfBlocks) {
  const std::vector<float> x = patterns(40);
  const auto* data = reinterpret_cast<const std::byte*>(x.data());
  for (const Steps* steps : available())
    for (std::int64_t blocks = 1; blocks <= 40; ++blocks)
      for (const Dtype elem : {Dtype::E4M3, Dtype::E2M1}) {
        const Plan plan{.elem = elem, .mode = Mode::Rceil};
        expect_equal(run(*steps, plan, Dtype::F32, data, blocks, 1),
                     run(kScalarSteps, plan, Dtype::F32, data, blocks, 1), std::to_string(blocks));
      }
}

}  // namespace
}  // namespace parity::mx_kernel
