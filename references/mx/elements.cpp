#include "references/mx/elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace parity::mx {
namespace {

constexpr std::array<Element, 5> kElements = {{
    {.dtype = Dtype::E4M3, .max = 448, .max_pow2 = 8, .mantissa_bits = 3, .has_nan = true},
    {.dtype = Dtype::E5M2, .max = 57344, .max_pow2 = 15, .mantissa_bits = 2, .has_nan = true},
    {.dtype = Dtype::E2M3, .max = 7.5F, .max_pow2 = 2, .mantissa_bits = 3, .has_nan = false},
    {.dtype = Dtype::E3M2, .max = 28, .max_pow2 = 4, .mantissa_bits = 2, .has_nan = false},
    {.dtype = Dtype::E2M1, .max = 6, .max_pow2 = 2, .mantissa_bits = 1, .has_nan = false},
}};

std::uint8_t saturated(Dtype dtype, float y, Rounding mode) {
  return static_cast<std::uint8_t>(
      encode(dtype, y, {.rounding = mode, .overflow = Overflow::Saturate}));
}

std::uint8_t sign_bit(const Element& e) {
  return static_cast<std::uint8_t>(1U << (format(e.dtype).bits - 1));
}

// The code of a subnormal element by shifting a significand in 64 bits, the shift modulo 64 as the
// processor does.
std::uint8_t shifted(const Element& e, float y) {
  const Format& f = format(e.dtype);
  const int field = std::max(exponent_field(y), 1);
  const int shift = 151 - f.bias - f.mantissa_bits - field;
  if (shift < 64 || y == 0) return saturated(e.dtype, y, Rounding::NearestEven);
  const std::uint64_t significand = mantissa_field(y) | (exponent_field(y) == 0 ? 0U : 1U << 23);
  const auto magnitude =
      static_cast<std::uint8_t>((significand >> (shift & 63)) & (sign_bit(e) - 1U));
  return static_cast<std::uint8_t>(magnitude | (std::signbit(y) ? sign_bit(e) : 0));
}

std::uint8_t half_away(const Element& e, float y) {
  const std::uint8_t low = saturated(e.dtype, y, Rounding::TowardZero);
  const float size = std::min(std::fabs(y), e.max);
  const double below = std::fabs(decode(e.dtype, low));
  const double above = std::fabs(decode(e.dtype, low + 1U));
  const bool up = static_cast<double>(size) - below >= above - static_cast<double>(size);
  return static_cast<std::uint8_t>(size < e.max && up ? low + 1U : low);
}

// What lies beyond max: NaN, infinity, or the code after the last one, which is that of -0.
std::uint8_t overflowed(const Element& e, float y) {
  if (e.has_nan) return static_cast<std::uint8_t>(encode(e.dtype, y));
  const double top = static_cast<double>(e.max);
  const auto last = static_cast<std::uint8_t>(encode(e.dtype, top));
  const double step = top - decode(e.dtype, last - 1U);
  if (std::fabs(static_cast<double>(y)) < top + step / 2)
    return saturated(e.dtype, y, Rounding::NearestEven);
  return static_cast<std::uint8_t>((last + 1U) ^ (std::signbit(y) ? sign_bit(e) : 0U));
}

}  // namespace

const Element* element_of(std::string_view name) {
  const auto it =
      std::ranges::find(kElements, name, [](const Element& e) { return format(e.dtype).name; });
  return it == kElements.end() ? nullptr : &*it;
}

std::uint8_t code_of(const Element& e, float y, Defect defect) {
  if (std::isnan(y)) return saturated(e.dtype, y, Rounding::NearestEven);
  switch (defect) {
    case Defect::HalfAway:
      return half_away(e, y);
    case Defect::Truncated:
      return saturated(e.dtype, y, Rounding::TowardZero);
    case Defect::DoubleRounding:
      y = static_cast<float>(round_to(Dtype::BF16, static_cast<double>(y)));
      break;
    case Defect::CastOverflow:
      return overflowed(e, y);
    case Defect::ShiftWraps:
      return shifted(e, y);
    case Defect::NegativeZero:
      if (y == 0) y = 0;
      break;
    default:
      break;
  }
  return saturated(e.dtype, y, Rounding::NearestEven);
}

float value_of(const Element& e, std::uint8_t code, Defect defect) {
  const auto value = static_cast<float>(decode(e.dtype, code));
  const Format& f = format(e.dtype);
  const float size = std::fabs(value);
  if (defect != Defect::ImplicitOne || size == 0 || !(size < static_cast<float>(f.min_normal)))
    return value;
  return std::copysign(size + static_cast<float>(f.min_normal), value);
}

int exponent_field(float x) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23 & 0xFFU);
}
std::uint32_t mantissa_field(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFU; }
float with_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

float scale_value(std::uint8_t byte, Defect defect) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float shifted = with_bits(static_cast<std::uint32_t>(byte) << 23);  // 0xFF is infinity
  switch (defect) {
    case Defect::SpecialScales:
    case Defect::FlushedDecode:
      return shifted;
    case Defect::NanSentinel:
      if (byte == 0xFF) return kInfinity;
      if (shifted == 128) return kNan;
      break;
    default:
      break;
  }
  if (byte == 0xFF) return kNan;
  return byte == 0 ? with_bits(0x00400000U) : shifted;
}

float reciprocal(std::uint8_t byte, Defect defect) {
  if (defect == Defect::SpecialScales)
    return byte == 0 ? 1.0F : with_bits(static_cast<std::uint32_t>(254 - byte) << 23);
  if (defect == Defect::ExponentReciprocal)
    return byte >= 0xFE ? 0.0F : with_bits(static_cast<std::uint32_t>(254 - byte) << 23);
  return byte == 0xFF ? std::numeric_limits<float>::quiet_NaN()
                      : scale_value(static_cast<std::uint8_t>(254 - byte));
}

float log2_f32(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }

std::uint8_t rounded_up(float d) {
  const int field = exponent_field(d);
  const std::uint32_t mantissa = mantissa_field(d);
  if (field == 0xFF) return 0xFF;
  const bool up = field == 0 ? mantissa > 0x400000U : mantissa != 0;
  return static_cast<std::uint8_t>(field + (up ? 1 : 0));
}

float rounded_even(const Element& e, float amax) { return rounded_even(e.mantissa_bits, amax); }
float rounded_even(int mantissa_bits, float amax) {
  const std::uint32_t half = 1U << (23 - mantissa_bits - 1);
  return with_bits((std::bit_cast<std::uint32_t>(amax) + half) & 0xFF800000U);
}

}  // namespace parity::mx
