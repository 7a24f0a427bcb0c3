// Between the driver of pair_stats and the code that runs over one block: internal to
// harness/numeric.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/dtype.hpp"
#include "harness/numeric/pair_stats.hpp"

namespace parity::pair_detail {

inline constexpr int kLanes = 16;
inline constexpr int kBlock =
    4096;  // elements: 16 KiB of f32, so that a pair stays in the first-level cache

struct BlockSums {
  double sq_diff = 0, sq_a = 0, sq_b = 0, dot = 0, diff = 0, abs_diff = 0;
};

// Sixteen partial sums of each kind, as they stand after the last row of a block.
struct LaneSums {
  alignas(64) double sq_diff[kLanes] = {};
  alignas(64) double sq_a[kLanes] = {};
  alignas(64) double sq_b[kLanes] = {};
  alignas(64) double dot[kLanes] = {};
  alignas(64) double diff[kLanes] = {};
  alignas(64) double abs_diff[kLanes] = {};
};

// Counts, for each of 32 places, the ones that vectors of 16 words hold there; two counters side by
// side, of all distances and of those of got above want. Carry-save: three bit planes a stage
// (weights 1, 2, 4 times 8^stage) and the vectors that wait for the stage. The code over vectors
// fills it.
struct alignas(64) BitVector {
  std::uint32_t word[kLanes];
};
struct Ones {  // not initialised by itself: written whole in inner loops
  BitVector all, above;
};
struct BitCounter {
  static constexpr int kStages = 3;
  struct Stage {
    Ones planes[3] = {};
    Ones waiting[8] = {};
    int size = 0;
  };
  Stage stages[kStages] = {};
  std::int64_t all[32] = {}, above[32] = {};  // what has left the last stage, by place

  void overflow(const Ones& ones) { add(ones, std::int64_t{1} << (3 * kStages)); }
  void add(const Ones& ones, std::int64_t weight);
  void empty_stages();
};

// What one thread gathers over its run of blocks; integers and maxima, so that no order shows.
struct Tally {
  PairStats stats = {};                     // all but the sums
  std::uint64_t ulp_low = 0, ulp_high = 0;  // sum of the distances, 128 bits
  BitCounter highest_bits = {};             // of the distances; what those at distance 0 lack
  bool careful = false;  // the last block held an infinity or NaN: look for them at once

  void add_ulp(std::uint64_t distance);
};

// Elements [first, first + count) of both tensors, count <= kBlock and first a multiple of it.
using BlockFunction = BlockSums (*)(const std::byte* want, const std::byte* got, std::int64_t first,
                                    int count, Tally& tally);

[[nodiscard]] BlockFunction plain_block(Dtype dtype);
// For whole blocks; nullptr: not for this format, or not built in.
[[nodiscard]] BlockFunction avx2_block(Dtype dtype);
[[nodiscard]] BlockFunction avx512_block(Dtype dtype);

[[nodiscard]] BlockSums fold(const LaneSums& lanes);

// pair_stats with the code of one's choice for whole blocks.
[[nodiscard]] PairStats run_blocks(Dtype dtype, BlockFunction whole, const std::byte* want,
                                   const std::byte* got, std::int64_t elements, int threads);

}  // namespace parity::pair_detail
