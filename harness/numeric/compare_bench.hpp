// What the benchmarks of comparing compare, here and by LibTorch: pairs of tensors of 256 MB each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "harness/dtype.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::compare_bench {

inline constexpr std::int64_t kBytes = 256 << 20;  // of one side

struct Pair {
  std::int64_t elements = 0;
  std::vector<std::byte> want = {}, got = {};
};

// Standard normal elements; one in `one_in` of the other side is off by a few roundings of the
// format. A tile of 2^18 elements is drawn and repeated.
inline Pair make_pair(Dtype dtype, std::int64_t bytes, std::int64_t one_in) {
  constexpr std::int64_t kTile = 1 << 18;
  const Rng rng{.seed = 1, .stream = static_cast<std::uint64_t>(dtype)};
  std::vector<double> want(kTile);
  rng.fill_normal(0, want);
  std::vector<double> got = want;
  const double step = 16 * format(dtype).unit_roundoff;
  for (std::int64_t i = 0; i < kTile; i += one_in) {
    const auto k = static_cast<std::size_t>(i);
    got[k] += step * (rng.split(1).uniform01(k) - 0.5) * (got[k] + 0.1);
    if (round_to(dtype, got[k]) == round_to(dtype, want[k])) got[k] += step * got[k];
  }
  std::vector<std::byte> tile_a(bytes_for(dtype, kTile)), tile_b(tile_a.size());
  narrow(dtype, want, 0, tile_a.data());
  narrow(dtype, got, 0, tile_b.data());

  const auto size = static_cast<std::size_t>(bytes);
  Pair pair{.elements = bytes * kTile / static_cast<std::int64_t>(tile_a.size()),
            .want = std::vector<std::byte>(size),
            .got = std::vector<std::byte>(size)};
  for (std::size_t at = 0; at < size; at += tile_a.size()) {
    const std::size_t part = std::min(tile_a.size(), size - at);
    std::memcpy(pair.want.data() + at, tile_a.data(), part);
    std::memcpy(pair.got.data() + at, tile_b.data(), part);
  }
  return pair;
}

// The pair made last stays, so that repetitions do not make it again.
inline const Pair& pair_of(Dtype dtype, std::int64_t bytes, std::int64_t one_in) {
  struct Kept {
    Dtype dtype = Dtype::F64;
    std::int64_t bytes = 0, one_in = 0;
    Pair pair = {};
  };
  static Kept kept;
  if (kept.dtype != dtype || kept.bytes != bytes || kept.one_in != one_in) {
    kept.pair = {};
    kept = {dtype, bytes, one_in, make_pair(dtype, bytes, one_in)};
  }
  return kept.pair;
}

inline constexpr std::int64_t kFew = 100000;  // one element in so many differs
inline constexpr std::int64_t kAll = 1;

inline int all_cores() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace parity::compare_bench
