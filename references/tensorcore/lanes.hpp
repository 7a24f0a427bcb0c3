// The aligned adder in 16 columns at once. Operands come taken apart, so that a product costs an
// addition of exponents, a multiplication and a shift.
#pragma once

#include <cstdint>

namespace parity::tensorcore {

inline constexpr int kLanes = 16;
inline constexpr int kTile = 4;  // rows that share what is loaded of a panel
// Exponent of a zero: far below every other, so that it takes no part in the alignment.
inline constexpr std::int32_t kNoExponent = -(1 << 20);

// Element k of a row of a, or lane l of element k of a panel of b at [k kLanes + l].
struct Apart {
  const std::int32_t* size = nullptr;      // |significand|; b's is shifted left by F - bits(a b)
  const std::int32_t* exponent = nullptr;  // with that of its e8m0 scale
  const std::int32_t* sign = nullptr;      // 0 or -1
};

struct LaneJob {
  int k = 0, group = 0, fraction = 0;
  int kept_bits = 0;      // fraction bits of an f32 accumulator, towards zero
  bool f16 = false;       // accumulators are f16 values, rounded to nearest even
  int term_bits = 0;      // fraction bits of a scaled dot product; 0: terms are single products
  bool via_half = false;  // each instruction starts from zero, and c is added to its sum
  std::int64_t first = 0, last = 0;  // instructions
  Apart b = {};
  // Whether a lane or row has infinities or NaN in an instruction's elements.
  const std::uint8_t* special_b = nullptr;
  // What the lanes cannot do (infinities, NaN, results outside the normal range), by the scalar
  // model.
  float (*exact)(const void* context, std::int64_t row, int lane, std::int64_t instruction,
                 float c) = nullptr;
  const void* context = nullptr;
};
struct LaneRow {
  Apart a = {};
  const std::uint8_t* special = nullptr;
  std::int64_t row = 0;
  float* accumulator = nullptr;  // kLanes of them, in and out
};

using RunLanes = void (*)(const LaneJob&, const LaneRow* rows, int count);
void run_lanes_plain(const LaneJob&, const LaneRow*, int count);
void run_lanes_avx2(const LaneJob&, const LaneRow*, int count);
void run_lanes_avx512(const LaneJob&, const LaneRow*, int count);

}  // namespace parity::tensorcore
