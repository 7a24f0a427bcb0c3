// The driver of the pair statistics: blocks over threads, partial results put together in the order
// of the blocks.
#include "harness/numeric/pair_stats.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "harness/numeric/pair_stats_block.hpp"

namespace parity {
namespace pair_detail {
namespace {

struct Chosen {
  BlockFunction whole = nullptr;
  const char* path = "plain";
};

// AVX-512 here is F, BW, CD, DQ and VL: every machine that has the last four has the first.
Chosen choose(Dtype dtype) {
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    if (const BlockFunction f = avx512_block(dtype)) return {f, "avx512"};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    if (const BlockFunction f = avx2_block(dtype)) return {f, "avx2"};
  }
  return {plain_block(dtype), "plain"};
}

int threads_that_pay(Dtype dtype, std::int64_t elements) {
  constexpr std::size_t kBytesPerThread =
      std::size_t{4} << 20;          // about 0.3 ms of reading against 0.03 ms of starting
  constexpr std::size_t kMost = 16;  // beyond, memory is the limit
  const std::size_t worth = bytes_for(dtype, elements) / kBytesPerThread;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp(worth, std::size_t{1}, std::min(cores, kMost)));
}

// The counters of the code over vectors: bucket = place + 1, the pairs at distance 0 left out;
// those in them differ. Formats of 16 bits have two elements in a word of 32 places.
void add_counters(const BitCounter& counter, std::size_t places, PairStats& into) {
  for (std::size_t k = 0; k < 32; ++k) {
    const std::size_t bucket = k % places + 1;
    into.log2_ulp_histogram[kUlpCentre + bucket] += counter.above[k];
    into.log2_ulp_histogram[kUlpCentre - bucket] += counter.all[k] - counter.above[k];
    into.differing += counter.all[k];
  }
}

void merge(PairStats& into, const PairStats& s) {
  into.differing += s.differing;
  into.mismatched_nonfinite += s.mismatched_nonfinite;
  into.nan_a += s.nan_a;
  into.nan_b += s.nan_b;
  into.inf_a += s.inf_a;
  into.inf_b += s.inf_b;
  into.zero_a += s.zero_a;
  into.zero_b += s.zero_b;
  into.finite_pairs += s.finite_pairs;
  into.want_zero_got_nonzero += s.want_zero_got_nonzero;
  if (s.max_abs > into.max_abs) {  // strictly, so that the first of equals stays
    into.max_abs = s.max_abs;
    into.worst_index = s.worst_index;
  }
  into.max_rel = std::max(into.max_rel, s.max_rel);
  into.max_ulp = std::max(into.max_ulp, s.max_ulp);
  for (std::size_t k = 0; k < into.log2_ulp_histogram.size(); ++k) {
    into.log2_ulp_histogram[k] += s.log2_ulp_histogram[k];
  }
}

}  // namespace

PairStats run_blocks(Dtype dtype, BlockFunction whole, const std::byte* want, const std::byte* got,
                     std::int64_t elements, int threads) {
  if (elements < 0) throw std::invalid_argument("pair_stats: negative number of elements");
  const std::int64_t blocks = (elements + kBlock - 1) / kBlock;
  const std::int64_t workers =
      std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(blocks, 1));
  const BlockFunction rest = plain_block(dtype);
  std::vector<BlockSums> sums(static_cast<std::size_t>(blocks));
  std::vector<Tally> tallies(static_cast<std::size_t>(workers));

  const auto work = [&](std::int64_t worker) {
    Tally tally;  // on this thread's stack, away from the lines of the others
    const std::int64_t end = blocks * (worker + 1) / workers;
    for (std::int64_t k = blocks * worker / workers; k < end; ++k) {
      const std::int64_t first = k * kBlock;
      const auto count = static_cast<int>(std::min<std::int64_t>(kBlock, elements - first));
      const BlockFunction f = count == kBlock ? whole : rest;
      sums[static_cast<std::size_t>(k)] = f(want, got, first, count, tally);
    }
    tallies[static_cast<std::size_t>(worker)] = tally;
  };
  {
    std::vector<std::jthread> pool;
    pool.reserve(static_cast<std::size_t>(workers - 1));
    for (std::int64_t w = 1; w < workers; ++w) pool.emplace_back(work, w);
    work(0);
  }

  PairStats result{.elements = elements};
  Tally ulps;
  for (Tally& tally : tallies) {
    merge(result, tally.stats);
    tally.highest_bits.empty_stages();
    add_counters(tally.highest_bits, format(dtype).bits == 16 ? 16 : 32, result);
    ulps.add_ulp(tally.ulp_low);
    ulps.ulp_high += tally.ulp_high;
  }
  result.sum_ulp = static_cast<double>(ulps.ulp_high) * 0x1p64 + static_cast<double>(ulps.ulp_low);
  std::int64_t& centre = result.log2_ulp_histogram[kUlpCentre];
  const auto& histogram = result.log2_ulp_histogram;
  centre = 0;
  centre =
      result.finite_pairs - std::accumulate(histogram.begin(), histogram.end(), std::int64_t{0});
  for (const BlockSums& s : sums) {
    result.sum_sq_diff += s.sq_diff;
    result.sum_sq_a += s.sq_a;
    result.sum_sq_b += s.sq_b;
    result.dot += s.dot;
    result.sum_diff += s.diff;
    result.sum_abs_diff += s.abs_diff;
  }
  return result;
}

}  // namespace pair_detail

PairStats pair_stats(Dtype dtype, const std::byte* want, const std::byte* got,
                     std::int64_t elements, int threads) {
  if (threads < 0) throw std::invalid_argument("pair_stats: negative number of threads");
  const int used = threads == 0 ? pair_detail::threads_that_pay(dtype, elements) : threads;
  return pair_detail::run_blocks(dtype, pair_detail::choose(dtype).whole, want, got, elements,
                                 used);
}

PairStats pair_stats_plain(Dtype dtype, const std::byte* want, const std::byte* got,
                           std::int64_t elements, int /*threads*/) {
  return pair_detail::run_blocks(dtype, pair_detail::plain_block(dtype), want, got, elements, 1);
}

const char* pair_stats_path(Dtype dtype) { return pair_detail::choose(dtype).path; }

}  // namespace parity
