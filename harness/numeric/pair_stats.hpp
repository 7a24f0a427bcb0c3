// All that a comparison of two tensors of one format needs, in one pass over their stored bytes.
//
// The definition is pair_stats_plain. pair_stats gives the same bits, by AVX2 or AVX-512 where the
// machine has them and on any number of threads. What makes that possible is one order of
// summation: element i belongs to lane i % 16 of block i / 4096; a lane adds its elements in turn,
// starting at +0; the 16 lanes of a block are folded 8 + 8, 4 + 4, 2 + 2, 1 + 1; blocks are added
// in sequence. Products and sums are double, each rounded once, never fused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/dtype.hpp"
#include "harness/numeric/ulp.hpp"

namespace parity {

// a is `want`, b is `got`. Sums, maxima and histogram are over the pairs in which both are finite.
struct PairStats {
  std::int64_t elements = 0;
  std::int64_t differing = 0;  // bits differ: -0 against +0 and two different NaNs count
  // NaN against no NaN, or an infinity against anything but itself.
  std::int64_t mismatched_nonfinite = 0;
  std::int64_t nan_a = 0, nan_b = 0, inf_a = 0, inf_b = 0;
  std::int64_t zero_a = 0, zero_b = 0;  // either sign
  std::int64_t finite_pairs = 0;
  std::int64_t want_zero_got_nonzero = 0;

  double sum_sq_diff = 0, sum_sq_a = 0, sum_sq_b = 0, dot = 0;
  double sum_diff = 0, sum_abs_diff = 0;  // diff = b - a
  double max_abs = 0;                     // |b - a|
  double max_rel = 0;                     // |b - a| / |a| over a != 0
  std::int64_t worst_index = -1;  // first element of that max_abs; -1 where no finite pair differs
  std::int64_t max_ulp = 0;       // +0 and -0 are one value
  double sum_ulp = 0;
  UlpHistogram log2_ulp_histogram = {};  // adds up to finite_pairs

  [[nodiscard]] bool operator==(const PairStats&) const = default;
};

// `threads` 0: as many as pay off. The run of elements starts at the first byte of both (E2M1: low
// nibble first); no alignment is asked for.
[[nodiscard]] PairStats pair_stats(Dtype dtype, const std::byte* want, const std::byte* got,
                                   std::int64_t elements, int threads = 0);

// The definition, one element after another on one thread; `threads` is there so that both can be
// called alike.
[[nodiscard]] PairStats pair_stats_plain(Dtype dtype, const std::byte* want, const std::byte* got,
                                         std::int64_t elements, int threads = 0);

// Which code pair_stats runs for a format on this machine: "avx512", "avx2" or "plain".
[[nodiscard]] const char* pair_stats_path(Dtype dtype);

}  // namespace parity
