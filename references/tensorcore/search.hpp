// Which schedule a matrix product was computed by: every one that an architecture has is tried
// until the ones remain that give all bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "references/tensorcore/gemm.hpp"

namespace parity::tensorcore {

// What was observed. `store` turns an accumulator into the code of the output (scales, rounding).
struct Observation {
  Product product = {};  // its schedule is not looked at
  std::function<std::uint64_t(float sum, std::int64_t m, std::int64_t n)> store = {};
  std::function<std::uint64_t(std::int64_t m, std::int64_t n)> stored = {};
};

struct Match {
  Schedule schedule = {};
  std::int64_t equal = 0, outputs = 0;
  [[nodiscard]] bool all() const { return outputs > 0 && equal == outputs; }
};

struct Found {
  std::vector<Match> exact = {};  // every schedule that gives all bits, the simplest first
  Match nearest = {};             // the best of all: exact.front() where there is one
  std::int64_t tried = 0;
  [[nodiscard]] std::string text()
      const;  // "sm_90.mma.k8.nearest.slice64: 8192 of 8192 outputs..."
};

// Tries every unit that takes the operands; accumulators in f32, and f16 where `f16`; inputs as
// stored and rounded to tf32; one chain, and slices of every multiple of the instruction's K, added
// upwards and downwards. First on a sample of outputs, what is left on all of them.
[[nodiscard]] Found search(const Observation&, std::string_view arch, int threads);

}  // namespace parity::tensorcore
