// Conversions between f32 and narrow formats as the hardware's: to nearest even, saturating, one
// NaN.
#include <cmath>

#include "harness/dtype.hpp"
#include "kernels/emulated/instructions.hpp"

namespace parity::emulated {
namespace {

std::uint32_t saturated(Dtype d, float x, std::uint32_t nan) {
  if (std::isnan(x)) return nan;
  return static_cast<std::uint32_t>(
      encode(d, static_cast<double>(x), {.overflow = Overflow::Saturate}));
}

float number(Dtype d, std::uint32_t code) { return static_cast<float>(decode(d, code)); }

}  // namespace

std::uint32_t to_e4m3(float x) { return saturated(Dtype::E4M3, x, 0x7F); }
float from_e4m3(std::uint32_t code) { return number(Dtype::E4M3, code & 0xFFU); }

std::uint32_t to_e2m1x2(float high, float low) {
  return saturated(Dtype::E2M1, high, 7) << 4 | saturated(Dtype::E2M1, low, 7);
}
void from_e2m1x2(std::uint32_t byte, float& high, float& low) {
  high = number(Dtype::E2M1, byte >> 4 & 15U);
  low = number(Dtype::E2M1, byte & 15U);
}

}  // namespace parity::emulated
