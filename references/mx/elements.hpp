// What MX is made of: five element formats under a power-of-two scale of eight bits (e8m0).
//   source   OCP Microscaling Formats (MX) 1.0; torchao prototype/mx_formats
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/dtype.hpp"
#include "references/mx/faults.hpp"

namespace parity::mx {

inline constexpr std::int64_t kBlock = 32;

struct Element {
  Dtype dtype = Dtype::E4M3;
  float max = 448;
  int max_pow2 = 8;  // floor(log2(max))
  int mantissa_bits = 3;
  bool has_nan = true;  // else nobody defines the code of a NaN
};
// By the option `elem`: "e4m3", "e5m2", "e2m3", "e3m2", "e2m1". Null for another word.
const Element* element_of(std::string_view name);

// y to the nearest code, ties to even, what lies beyond to the largest finite value.
std::uint8_t code_of(const Element&, float y, Defect = Defect::None);
float value_of(const Element&, std::uint8_t code, Defect = Defect::None);

// Fields of an f32.
inline constexpr int kBias = 127;
int exponent_field(float x);
std::uint32_t mantissa_field(float x);
float with_bits(std::uint32_t bits);

// 2^(byte-127); 0xFF is NaN.
float scale_value(std::uint8_t byte, Defect = Defect::None);
// 2^(127-byte): the reciprocal. Those of 0xFE and 0 are 2^-127, a subnormal f32, and 2^127; that of
// 0xFF is NaN.
float reciprocal(std::uint8_t byte, Defect = Defect::None);

// log2 rounded once to f32, as far as the floor and the ceiling can tell.
float log2_f32(float x);

// Byte of 2^ceil(log2 d) from the bits of d >= 0: `cvt.rp.ue8m0x2.f32`. Infinity and NaN give 0xFF.
// A subnormal d is at most 2^-126 (byte 1); those up to 2^-127 have byte 0.
std::uint8_t rounded_up(float d);

// amax with half of the element's last mantissa place added and the rest cut off: a power of two,
// infinity where that overflows.
float rounded_even(const Element&, float amax);
float rounded_even(int mantissa_bits, float amax);

}  // namespace parity::mx
