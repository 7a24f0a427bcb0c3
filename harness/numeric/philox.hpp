// Counter-based random numbers: draw i of stream s under a seed is a pure function of (seed, s, i),
// so that tensors can be generated in any order, by any number of threads, in part, and on any
// machine.
//
// Philox4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011). On top of it only integer operations and IEEE + - * / sqrt, in philox.cpp, which is
// compiled without contraction: no libm, the same bits on every x86-64.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace parity {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;
[[nodiscard]] PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key);

// Every distribution at index i consumes the same 64 bits, bits(i): take two streams (or split) for
// independent draws at one index.
struct Rng {
  std::uint64_t seed = 0;    // the key
  std::uint64_t stream = 0;  // e.g. the number of the tensor; upper half of the counter

  [[nodiscard]] std::uint64_t bits(std::uint64_t i) const;
  // (bits >> 11) * 2^-53: [0, 1), multiples of 2^-53.
  [[nodiscard]] double uniform01(std::uint64_t i) const;
  // a + (b - a) * uniform01(i), each operation rounded once.
  [[nodiscard]] double uniform(std::uint64_t i, double a, double b) const;
  // lo <= result <= hi: the upper half of bits * (hi - lo + 1). No probability is off by more than
  // 2^-64.
  [[nodiscard]] std::int64_t integer(std::uint64_t i, std::int64_t lo, std::int64_t hi) const;
  // normal_quantile((k + 1/2) * 2^-52) for the top 52 bits k: standard normal, exactly symmetric,
  // |result| < 8.3.
  [[nodiscard]] double normal(std::uint64_t i) const;

  // Elements first, first + 1, … ; the same numbers, two for one round of Philox.
  void fill_uniform01(std::uint64_t first, std::span<double> out) const;
  void fill_normal(std::uint64_t first, std::span<double> out) const;

  // An independent generator for part n of what this one stands for.
  [[nodiscard]] Rng split(std::uint64_t n) const;
};

// The standard normal quantile for 0 < p < 1: algorithm AS 241, PPND16 (Wichura 1988), about 1e-16
// relative, with an own logarithm. +-infinity at 1 and 0, NaN outside.
[[nodiscard]] double normal_quantile(double p);

}  // namespace parity
