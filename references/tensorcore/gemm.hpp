// Whole matrix products from one matrix instruction: y_MN = sum_k a_MK b_NK by chains along K.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "references/tensorcore/dot.hpp"

namespace parity::tensorcore {

// How a product is put together. K is cut into slices; within one, the result of each instruction
// is the accumulator of the next, k ascending, from zero; the slices' sums are added in f32, in
// their order. A split-K kernel has a slice for each split, an fp8 kernel that promotes to f32 one
// for each promotion.
struct Schedule {
  const Unit* unit = nullptr;
  Dtype accumulate = Dtype::F32;
  std::int64_t slice = 0;       // elements of K; 0: all
  bool nearest_inputs = false;  // f32 operands are rounded to the nearest tf32, not truncated
  bool descending = false;      // the slices are added from the last to the first
  bool operator==(const Schedule&) const = default;
};

// Row-major with K last, so that both operands are read along K. `scales`: codes by block of the
// unit's scale_block, likewise; empty where it has none.
struct Operands {
  Dtype dtype = Dtype::BF16;
  const std::byte* codes = nullptr;
  std::int64_t rows = 0;
  std::span<const std::uint8_t> scales = {};
};
struct Product {
  Operands a = {}, b = {};
  std::int64_t K = 0;
  Schedule schedule = {};
  const float* c = nullptr;  // M N accumulators to start from (f16 widened); null: zeros
};

// One accumulator y[m,n] started from `c` (p.c is not looked at), both as codes of its format. By
// dot(), one instruction after another.
[[nodiscard]] std::uint64_t accumulator(const Product& p, std::int64_t m, std::int64_t n,
                                        std::uint64_t c = 0, const Defect& = {});

// An accumulator as a number; an f32 keeps its bits.
[[nodiscard]] float value_of(Dtype accumulate, std::uint64_t code);

// All accumulators (M N, f32 patterns; f16 accumulators are widened), 16 columns at a time, by the
// widest instruction set of this machine. Bit for bit those of accumulator(), whatever the threads.
[[nodiscard]] std::vector<float> accumulators(const Product&, int threads);

enum class Isa : std::uint8_t { Plain, Avx2, Avx512 };
[[nodiscard]] std::vector<float> accumulators(const Product&, int threads, Isa);

}  // namespace parity::tensorcore
