// One output of a matrix instruction, to the bit. The model is in unit.hpp; this is its definition,
// written for reading: gemm.hpp gives the same bits many outputs at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "references/tensorcore/unit.hpp"

namespace parity::tensorcore {

// A stored number taken apart: value = significand * 2^(exponent - bits). Subnormals have the
// exponent of the least normal number and a small significand. tf32 drops the 13 low bits of what
// it is given.
struct Operand {
  enum class Class : std::uint8_t { Finite, Infinite, Nan };
  Class kind = Class::Finite;
  bool negative = false;
  int exponent = 0;
  int bits = 0;  // fraction bits of the format
  std::int64_t significand = 0;
};
[[nodiscard]] Operand take_apart(Dtype dtype, std::uint64_t code);
// An operand as a unit multiplies it. What goes via f16 is normal there where an e4m3 was
// subnormal, and has the exponent of its first bit [measured: sm_90].
[[nodiscard]] Operand operand_of(const Unit&, Dtype dtype, std::uint64_t code);
// Fraction bits of a product of such operands.
[[nodiscard]] int product_bits(const Unit&, Dtype a, Dtype b);

// Departures from the hardware, for proofs that they would be seen.
struct Defect {
  bool nearest = false;      // rounds to nearest even where the hardware truncates
  int fraction = 0;          // added to the unit's
  bool zero_aligns = false;  // a zero factor's product still has its exponent
  bool flushes = false;      // subnormal operands and results are zero
  bool nan_is_inf = false;   // NaN comes out as infinity
  bool wide_fp8 = false;     // the accumulator keeps 23 bits where it keeps 13
  bool half_groups = false;  // two steps where the hardware does one
  bool scale_bias = false;   // e8m0 scales are 2^(code - 128)
  bool bf16_accumulator = false;
};

// Codes of one row of a, one column of b; scales by block, where the unit has them.
struct Factors {
  std::span<const std::uint64_t> a = {}, b = {};
  std::span<const std::uint64_t> scale_a = {}, scale_b = {};
};

// d = sum_k a_k b_k + c by one instruction, as codes of its types. Fewer than k products: the rest
// are zero.
[[nodiscard]] std::uint64_t dot(const Instruction&, const Factors&, std::uint64_t c,
                                const Defect& = {});

// An ordinary addition in f32 or f16, with the hardware's one NaN and no -0 from cancellation.
[[nodiscard]] std::uint64_t plain_sum(Dtype d, std::uint64_t x, std::uint64_t y);

inline constexpr std::uint64_t kNanF32 = 0x7FFFFFFF;
inline constexpr std::uint64_t kNanF16 = 0x7FFF;

}  // namespace parity::tensorcore
