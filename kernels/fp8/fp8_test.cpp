// The vector steps against the scalar ones, and whole matrices of every tiling over threads.
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/numeric/formats.hpp"
#include "harness/numeric/philox.hpp"
#include "harness/registry.hpp"
#include "kernels/fp8/frame.hpp"

namespace parity::fp8_kernel {
namespace {

std::vector<const Steps*> available() {
  std::vector<const Steps*> list;
  if (missing_capability("avx2").empty()) list.push_back(&kAvx2Steps);
  if (missing_capability("avx512").empty()) list.push_back(&kAvx512Steps);
  return list;
}

// Rows of all sizes; midpoints, zeros of both signs, subnormals, a row of random bits.
std::vector<float> patterns(std::int64_t rows, std::int64_t columns) {
  std::vector<float> x;
  const Rng rng{23, 0};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < columns; ++k) {
      const auto index = static_cast<std::uint64_t>(r * columns + k);
      float v = static_cast<float>(rng.normal(index)) *
                std::ldexp(1.0F, static_cast<int>(r * 7 % 60) - 30);
      if (r % 9 == 4) v = k == 0 ? 448.0F : static_cast<float>(k % 64) / 8 + 0.0625F;
      if (r % 9 == 5) v = k % 2 == 0 ? -0.0F : 0.0F;
      if (r % 9 == 6) v = static_cast<float>(k) * 1e-41F;
      if (r % 9 == 7) v = std::ldexp(v, -static_cast<int>(k % 64));
      if (r == rows - 1) v = std::bit_cast<float>(static_cast<std::uint32_t>(rng.bits(index)));
      x.push_back(v);
    }
  return x;
}

struct Result {
  std::vector<float> scales;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint32_t> values;
};

Result run(const Job& job, const Steps& steps, const Plan& plan, const Rule& rule,
           const std::byte* x) {
  const auto n = static_cast<std::size_t>(job.rows * job.columns);
  Result r{std::vector<float>(static_cast<std::size_t>(job.down() * job.across())),
           std::vector<std::uint8_t>(n),
           {}};
  quantise_matrix(job, steps, plan, rule, x, r.scales.data(), r.codes.data());
  std::vector<float> wide(n);
  std::vector<std::uint16_t> narrow(n);
  dequantise_matrix(job, steps, plan, Dtype::F32, r.scales.data(), r.codes.data(),
                    reinterpret_cast<std::byte*>(wide.data()));
  dequantise_matrix(job, steps, plan, Dtype::BF16, r.scales.data(), r.codes.data(),
                    reinterpret_cast<std::byte*>(narrow.data()));
  const std::uint8_t nan = 0x7F;
  for (std::size_t i = 0; i < n; ++i) {
    if ((r.codes[i] & 0x7F) == nan) r.codes[i] = nan;  // a NaN's sign is nobody's
    r.values.push_back(std::isnan(wide[i]) ? 1U : std::bit_cast<std::uint32_t>(wide[i]));
    r.values.push_back(std::isnan(float_from_bf16(narrow[i])) ? 1U : narrow[i]);
  }
  for (float& s : r.scales)
    if (std::isnan(s)) s = -1;
  return r;
}

TEST(Fp8Steps, EveryTilingFormatAndThreadCount) {
  constexpr std::int64_t kRows = 130, kColumns = 300;
  const std::vector<float> x = patterns(kRows, kColumns);
  std::vector<std::uint16_t> h;
  for (const float v : x) h.push_back(bf16_from_float(v));
  struct Tile {
    std::int64_t rows, columns;
  };
  for (const Tile tile : {Tile{kRows, kColumns}, Tile{1, kColumns}, Tile{kRows, 1}, Tile{1, 128},
                          Tile{128, 1}, Tile{128, 128}})
    for (const Dtype elem : {Dtype::E4M3, Dtype::E5M2})
      for (const Dtype dtype : {Dtype::F32, Dtype::BF16})
        for (const bool pow2 : {false, true}) {
          Job job{.dtype = dtype,
                  .rows = kRows,
                  .columns = kColumns,
                  .tile_rows = tile.rows,
                  .tile_columns = tile.columns};
          const Plan plan{.elem = elem};
          const Rule rule{.max = elem == Dtype::E5M2 ? 57344.0 : 448.0, .pow2 = pow2};
          const auto* data = dtype == Dtype::BF16 ? reinterpret_cast<const std::byte*>(h.data())
                                                  : reinterpret_cast<const std::byte*>(x.data());
          const Result want = run(job, kScalarSteps, plan, rule, data);
          for (const Steps* steps : available())
            for (const int threads : {1, 2, 7}) {
              job.threads = threads;
              const Result got = run(job, *steps, plan, rule, data);
              EXPECT_EQ(got.scales, want.scales) << tile.rows << "x" << tile.columns;
              EXPECT_EQ(got.codes, want.codes) << tile.rows << "x" << tile.columns;
              EXPECT_EQ(got.values, want.values) << tile.rows << "x" << tile.columns;
            }
        }
}

// Long runs to bf16 go by a table of quotients.
TEST(Fp8Steps, LongRuns) {
  constexpr std::int64_t kRows = 10, kColumns = 1501;
  const std::vector<float> x = patterns(kRows, kColumns);
  for (const Dtype elem : {Dtype::E4M3, Dtype::E5M2})
    for (const std::int64_t tile_rows : {std::int64_t{1}, kRows}) {
      const Job job{
          .rows = kRows, .columns = kColumns, .tile_rows = tile_rows, .tile_columns = kColumns};
      const Plan plan{.elem = elem};
      const auto* data = reinterpret_cast<const std::byte*>(x.data());
      const Result want = run(job, kScalarSteps, plan, {}, data);
      for (const Steps* steps : available()) {
        const Result got = run(job, *steps, plan, {}, data);
        EXPECT_EQ(got.scales, want.scales);
        EXPECT_EQ(got.codes, want.codes);
        EXPECT_EQ(got.values, want.values);
      }
    }
}

TEST(Fp8Steps, ScaleRule) {
  EXPECT_EQ(scale_of({}, 448), 1);
  EXPECT_EQ(scale_of({}, 0), static_cast<float>(448 / 1e-12));
  EXPECT_EQ(scale_of({.pow2 = true}, 3), 128);
  EXPECT_TRUE(std::isnan(scale_of({}, std::nanf(""))));
}

}  // namespace
}  // namespace parity::fp8_kernel
