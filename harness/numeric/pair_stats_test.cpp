// The pair statistics: the definition on small examples with known answers, and the code over
// vectors against the definition.
#include "harness/numeric/pair_stats.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <vector>

#include "harness/numeric/exact_sum.hpp"
#include "harness/numeric/pair_stats_block.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::byte> stored(Dtype dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(bytes_for(dtype, static_cast<std::int64_t>(values.size())));
  narrow(dtype, values, 0, bytes.data());
  return bytes;
}

PairStats plain(Dtype dtype, const std::vector<double>& want, const std::vector<double>& got) {
  const auto a = stored(dtype, want);
  const auto b = stored(dtype, got);
  return pair_stats_plain(dtype, a.data(), b.data(), static_cast<std::int64_t>(want.size()), 1);
}

TEST(PairStats, SmallExample) {
  const PairStats s = plain(Dtype::F32, {1, 2, 0, -4, 0}, {1, 2.5, 0.25, -4.5, 0});
  EXPECT_EQ(s.elements, 5);
  EXPECT_EQ(s.finite_pairs, 5);
  EXPECT_EQ(s.differing, 3);
  EXPECT_EQ(s.zero_a, 2);
  EXPECT_EQ(s.zero_b, 1);
  EXPECT_EQ(s.want_zero_got_nonzero, 1);
  EXPECT_EQ(s.max_abs, 0.5);
  EXPECT_EQ(s.worst_index, 1);  // the first of two
  EXPECT_EQ(s.max_rel, 0.25);
  EXPECT_EQ(s.sum_diff, 0.25);
  EXPECT_EQ(s.sum_abs_diff, 1.25);
  EXPECT_EQ(s.sum_sq_diff, 0.5625);
  EXPECT_EQ(s.sum_sq_a, 21);
  EXPECT_EQ(s.sum_sq_b, 1 + 6.25 + 0.0625 + 20.25);
  EXPECT_EQ(s.dot, 1 + 5 + 18);
  EXPECT_EQ(s.max_ulp, 0x3E800000);  // 0 to 0.25
  EXPECT_EQ(s.sum_ulp, 0x3E800000 + (1 << 21) + (1 << 20));
  EXPECT_EQ(s.log2_ulp_histogram[kUlpCentre], 2);
  EXPECT_EQ(s.log2_ulp_histogram[kUlpCentre + 22], 1);
  EXPECT_EQ(s.log2_ulp_histogram[kUlpCentre + 30], 1);
  EXPECT_EQ(s.log2_ulp_histogram[kUlpCentre - 21], 1);  // below want
}

TEST(PairStats, NonFiniteAndZeros) {
  const PairStats s = plain(Dtype::BF16, {kNan, kNan, kInf, kInf, -kInf, 1, 0, kInf, 3},
                            {-kNan, 1, kInf, -kInf, 2, kInf, -0.0, kNan, 3});
  EXPECT_EQ(s.nan_a, 2);
  EXPECT_EQ(s.nan_b, 2);
  EXPECT_EQ(s.inf_a, 4);
  EXPECT_EQ(s.inf_b, 3);
  EXPECT_EQ(s.mismatched_nonfinite, 5);
  EXPECT_EQ(s.differing, 7);  // NaNs of different sign and 0 against -0 too
  EXPECT_EQ(s.finite_pairs, 2);
  EXPECT_EQ(s.max_ulp, 0);
  EXPECT_EQ(s.worst_index, -1);
  EXPECT_EQ(s.sum_sq_a, 9);
  EXPECT_EQ(s.log2_ulp_histogram[kUlpCentre], 2);
}

TEST(PairStats, NothingToCompare) {
  const PairStats s = pair_stats(Dtype::F32, nullptr, nullptr, 0, 3);
  EXPECT_EQ(s, PairStats{});
  EXPECT_THROW((void)pair_stats(Dtype::F32, nullptr, nullptr, -1, 1), std::invalid_argument);
  EXPECT_THROW((void)pair_stats(Dtype::F32, nullptr, nullptr, 0, -1), std::invalid_argument);
}

// Every format takes part; integers and packed codes too.
TEST(PairStats, EveryFormatCountsItsElements) {
  for (int d = 0; d < kDtypes; ++d) {
    const auto dtype = static_cast<Dtype>(d);
    std::vector<double> want(5001, 1);
    std::vector<double> got(5001, 1);
    got[4999] = 0;
    const auto a = stored(dtype, want);
    const auto b = stored(dtype, got);
    const PairStats s = pair_stats(dtype, a.data(), b.data(), 5001, 2);
    EXPECT_EQ(s.differing, 1) << name(dtype);
    EXPECT_EQ(s.worst_index, 4999) << name(dtype);
    EXPECT_EQ(s.finite_pairs, 5001) << name(dtype);
    EXPECT_EQ(s.sum_sq_a, 5001) << name(dtype);
    EXPECT_EQ(s, pair_stats_plain(dtype, a.data(), b.data(), 5001, 1)) << name(dtype);
  }
}

TEST(PairStats, SumsAreCloseToTheExactOnes) {
  const Rng rng{.seed = 7, .stream = 0};
  std::vector<double> want(100000), got(100000);
  rng.fill_normal(0, want);
  Rng{.seed = 7, .stream = 1}.fill_normal(0, got);
  const PairStats s = plain(Dtype::F64, want, got);
  EXPECT_NEAR(s.dot, exact_dot(want, got), 1e-9);
  EXPECT_NEAR(s.sum_sq_a, exact_dot(want, want), 1e-9);
  EXPECT_NEAR(s.sum_diff, exact_sum(got) - exact_sum(want), 1e-9);
  EXPECT_EQ(
      std::accumulate(s.log2_ulp_histogram.begin(), s.log2_ulp_histogram.end(), std::int64_t{0}),
      s.finite_pairs);
}

TEST(PairStats, DistancesOfF64DoNotOverflow) {
  const double largest = std::numeric_limits<double>::max();
  const PairStats s =
      plain(Dtype::F64, std::vector<double>(20, -largest), std::vector<double>(20, largest));
  EXPECT_EQ(s.max_ulp, kUlpInfinite - 1);
  EXPECT_EQ(s.log2_ulp_histogram[kUlpCentre + 64], 20);
  EXPECT_NEAR(s.sum_ulp, 20 * 2.0 * 0x7FEFFFFFFFFFFFFFp0, 1e6);
}

// ---- the code over vectors ----

enum class Data { Bits, Near, Rare, Same, Scaled, Zeroed, WithNonFinite, Tiny };
constexpr Data kAllData[] = {Data::Bits,   Data::Near,   Data::Rare,          Data::Same,
                             Data::Scaled, Data::Zeroed, Data::WithNonFinite, Data::Tiny};

// A pair of tensors as raw bytes, with what makes this kind of data hard.
void draw(Data data, Dtype dtype, std::int64_t elements, const Rng& rng, std::byte* want,
          std::byte* got) {
  const Format& f = format(dtype);
  const std::uint64_t codes = (std::uint64_t{1} << f.bits) - 1;
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto n = static_cast<std::uint64_t>(8 * i);
    const double a = rng.normal(n);
    std::uint64_t code_a = encode(dtype, a);
    std::uint64_t code_b = code_a;
    const double u = rng.uniform01(n + 1);
    switch (data) {
      case Data::Bits:  // any two patterns: NaNs with payloads, infinities, subnormals
        code_a = rng.bits(n + 2) & codes;
        code_b = rng.bits(n + 3) & codes;
        break;
      case Data::Near:
        code_b = encode(dtype, a * (1 + (u - 0.5) * 8 * f.unit_roundoff) + (u - 0.5) * 1e-3);
        break;
      case Data::Rare:
        if (u < 1e-3) code_b = encode(dtype, -a);
        break;
      case Data::Same:
        break;
      case Data::Scaled:
        code_b = encode(dtype, 2 * a);
        break;            // every quotient is 1
      case Data::Zeroed:  // zeros of both signs on either side
        if (u < 0.3) code_a = u < 0.15 ? 0 : (codes + 1) / 2;
        if (rng.uniform01(n + 4) < 0.3) code_b = rng.uniform01(n + 5) < 0.5 ? 0 : (codes + 1) / 2;
        break;
      case Data::WithNonFinite: {
        const double odd[] = {kNan, -kNan, kInf, -kInf};
        if (u < 1e-3) code_a = encode(dtype, odd[rng.integer(n + 4, 0, 3)]);
        if (u < 2e-3) code_b = encode(dtype, odd[rng.integer(n + 5, 0, 3)]);
        break;
      }
      case Data::Tiny:  // around zero: subnormals, both signs
        code_a = (rng.bits(n + 2) & 0x3u) | (rng.bits(n + 3) & ((codes + 1) / 2));
        code_b = (rng.bits(n + 4) & 0x3u) | (rng.bits(n + 5) & ((codes + 1) / 2));
        break;
    }
    store_code(dtype, want, i, code_a);
    store_code(dtype, got, i, code_b);
  }
}

void expect_same(const PairStats& a, const PairStats& b, const std::string& where) {
  ASSERT_EQ(std::memcmp(&a.sum_sq_diff, &b.sum_sq_diff, 8 * sizeof(double)), 0)
      << where << ": " << a.sum_sq_diff << " " << b.sum_sq_diff << " | " << a.max_rel << " "
      << b.max_rel << " | " << a.max_abs << " " << b.max_abs << " | " << a.dot << " " << b.dot;
  ASSERT_EQ(a.log2_ulp_histogram, b.log2_ulp_histogram) << where;
  ASSERT_EQ(a.worst_index, b.worst_index) << where;
  ASSERT_TRUE(a == b) << where;
}

struct Path {
  const char* name = "";
  pair_detail::BlockFunction (*block)(Dtype) = nullptr;
  bool runs = false;
};

std::vector<Path> paths() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return {{"avx2", pair_detail::avx2_block, avx2}, {"avx512", pair_detail::avx512_block, avx512}};
}

TEST(PairStats, VectorsGiveTheBitsOfTheDefinition) {
  int tried = 0;
  for (const Path& path : paths()) {
    if (!path.runs) continue;
    for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16}) {
      const pair_detail::BlockFunction block = path.block(dtype);
      ASSERT_NE(block, nullptr);
      for (const Data data : kAllData) {
        for (std::uint64_t round = 0; round < 4; ++round) {
          const Rng rng = Rng{.seed = round, .stream = static_cast<std::uint64_t>(data)}.split(
              static_cast<std::uint64_t>(dtype));
          const std::int64_t elements = rng.integer(0, 0, round == 0 ? 4096 : 40000);
          const std::int64_t offset_a = rng.integer(1, 0, 63);  // bytes: no alignment is promised
          const std::int64_t offset_b = rng.integer(2, 0, 63);
          const std::size_t size = bytes_for(dtype, elements);
          std::vector<std::byte> a(size + 64), b(size + 64);
          draw(data, dtype, elements, rng.split(3), a.data() + offset_a, b.data() + offset_b);
          const std::byte* want = a.data() + offset_a;
          const std::byte* got = b.data() + offset_b;
          const PairStats expected = pair_stats_plain(dtype, want, got, elements, 1);
          for (int threads = 1; threads <= 5; ++threads) {
            const PairStats s = pair_detail::run_blocks(dtype, block, want, got, elements, threads);
            expect_same(s, expected,
                        std::string(path.name) + " " + std::string(name(dtype)) + " data " +
                            std::to_string(static_cast<int>(data)) + " n " +
                            std::to_string(elements));
            if (HasFatalFailure()) return;
          }
          expect_same(pair_stats(dtype, want, got, elements), expected, "dispatched");
          ++tried;
        }
      }
    }
  }
  if (tried == 0) GTEST_SKIP() << "this machine has neither AVX2 nor AVX-512";
}

// Enough rows to carry through every stage of the bit counters, in the buckets at both ends.
TEST(PairStats, CountersOfVectorsCarry) {
  for (const Path& path : paths()) {
    if (!path.runs) continue;
    constexpr std::int64_t kElements = 3 * 512 * 16 * 8 + 17;
    std::vector<float> want(kElements), got(kElements);
    for (std::size_t i = 0; i < want.size(); ++i) {
      want[i] = i % 7 == 0 ? -0x1.FFFFFEp127f : 1.0f;
      got[i] = i % 7 == 0 ? 0x1.FFFFFEp127f : (i % 2 == 0 ? 1.0f + 0x1p-23f : 1.0f - 0x1p-24f);
    }
    const auto* a = reinterpret_cast<const std::byte*>(want.data());
    const auto* b = reinterpret_cast<const std::byte*>(got.data());
    const PairStats expected = pair_stats_plain(Dtype::F32, a, b, kElements, 1);
    EXPECT_EQ(expected.log2_ulp_histogram[kUlpCentre + 32], (kElements + 6) / 7);
    expect_same(pair_detail::run_blocks(Dtype::F32, path.block(Dtype::F32), a, b, kElements, 1),
                expected, path.name);
  }
}

}  // namespace
}  // namespace parity
