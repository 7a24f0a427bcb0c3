// Number formats as data, and the exact way between stored codes and doubles.
//
// A code is the bit pattern of one element, in the low bits of an integer. decode() is exact;
// encode() rounds once, from double to the format, whatever lies between them in width: rounding
// f64 -> f32 -> bf16 rounds twice, and one random value in 2^17 comes out wrong; no path here does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace parity {

enum class Dtype : std::uint8_t {
  F64,
  F32,
  TF32,
  BF16,
  F16,
  E4M3,
  E5M2,
  E8M0,
  E3M2,
  E2M3,
  E2M1,
  I64,
  I32,
  I16,
  I8,
  U8,
  Bool
};
inline constexpr int kDtypes = 17;

struct Format {
  std::string_view name;   // "bf16"
  std::string_view alias;  // "bfloat16", the spelling of PyTorch where it has one
  int bits = 0;            // width of a code. TF32 is the f32 pattern with its low 13 bits zero: 32
  int exponent_bits = 0;
  int mantissa_bits = 0;  // stored fraction bits; for integers the value bits
  int bias = 0;
  bool is_float = false;
  bool has_inf = false;
  bool has_nan = false;
  double unit_roundoff = 0;  // 2^-(mantissa_bits + 1); 0 for integers
  double max_finite = 0;
  // 1 for integers. E8M0 has neither zero nor subnormals; both are its least value, 2^-127.
  double min_normal = 0;
  double min_subnormal = 0;
};

[[nodiscard]] const Format& format(Dtype dtype);
[[nodiscard]] std::string_view name(Dtype dtype);

// Short or long spelling, also after "torch.". Throws std::invalid_argument, naming the nearest.
[[nodiscard]] Dtype parse_dtype(std::string_view text);

// Storage of that many elements. E2M1 packs two codes a byte, element 2i in the low nibble; E3M2
// and E2M3 take a byte per code (in its low six bits), TF32 four bytes, Bool one.
[[nodiscard]] std::size_t bytes_for(Dtype dtype, std::int64_t elements);

enum class Rounding : std::uint8_t {
  NearestEven,
  TowardZero,
  Up,         // toward +infinity
  Stochastic  // away from zero as often as the discarded fraction says; needs random_bits
};

// What becomes of a value beyond the largest finite one, and of an infinity.
enum class Overflow : std::uint8_t {
  Infinity,  // infinity; where there is none, NaN (E4M3, E8M0); where neither is, as Saturate
  Saturate   // the largest finite value with its sign (`.satfinite`)
};

struct Conversion {
  Rounding rounding = Rounding::NearestEven;
  Overflow overflow = Overflow::Infinity;
  // Stochastic rounds away iff floor(fraction * 2^32) + random_bits >= 2^32. Fewer than 32 bits of
  // randomness belong at the top; b of them are unbiased for fractions of at most b bits.
  std::uint32_t random_bits = 0;
};

// One rounding step from double to the code of a format.
//
// NaN: a quiet NaN with the sign kept (E4M3, E5M2: all ones; E8M0: 0xFF). E2M1, E3M2 and E2M3 have
// none and give the largest positive value, as `cvt.rn.satfinite` does. Integers have none either:
// std::domain_error.
//
// Overflow: directed and stochastic modes follow IEEE 754; TowardZero never leaves the finite
// range.
//
// E8M0 has no sign: |value| is encoded. A tie goes up (a significand of one digit has no even
// neighbour, IEEE 754-2019 §4.3.1); all below 2^-127, zero too, is code 0.
//
// Integers round by the same modes and saturate. Bool is value != 0.
[[nodiscard]] std::uint64_t encode(Dtype dtype, double value, const Conversion& conversion);
[[nodiscard]] std::uint64_t encode(Dtype dtype, double value,
                                   Rounding rounding = Rounding::NearestEven);

// Exact, but for I64 beyond 2^53 in size, which rounds to nearest even.
[[nodiscard]] double decode(Dtype dtype, std::uint64_t code);

// = decode(encode(value)).
[[nodiscard]] double round_to(Dtype dtype, double value, const Conversion& conversion);
[[nodiscard]] double round_to(Dtype dtype, double value, Rounding rounding = Rounding::NearestEven);

// Elements [first, first + size) of a tensor that starts at `bytes`. narrow() rounds to nearest
// even, once; of a byte that two E2M1 elements share it writes only the nibbles of the run.
void widen(Dtype dtype, const std::byte* bytes, std::int64_t first, std::span<double> out);
void narrow(Dtype dtype, std::span<const double> in, std::int64_t first, std::byte* bytes);

// The code of one stored element, and its place taken by another code.
[[nodiscard]] std::uint64_t load_code(Dtype dtype, const std::byte* bytes, std::int64_t index);
void store_code(Dtype dtype, std::byte* bytes, std::int64_t index, std::uint64_t code);

}  // namespace parity
