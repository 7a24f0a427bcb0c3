// One element at a time, through the codecs of the hub: what the vector forms must equal, and the
// home of arithmetic defects.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/mx/steps.hpp"
#include "kernels/quantize/scalar.hpp"

namespace parity::mx_kernel {
namespace {

std::uint8_t scale_of(const Plan& plan, float amax) {
  const Element e = element_of(plan.elem);
  std::uint32_t b = std::bit_cast<std::uint32_t>(amax);
  if (b >= 0x7F800000U) return 0xFF;
  if (plan.mode == Mode::Rceil && plan.defect != Defect::Floor) {
    b = std::bit_cast<std::uint32_t>(amax * e.inverse_max);
    const std::uint32_t field = b >> 23;
    const std::uint32_t mantissa = b & 0x7FFFFFU;
    return static_cast<std::uint8_t>(field + (mantissa > (field == 0 ? 0x400000U : 0U) ? 1 : 0));
  }
  if (plan.mode == Mode::Even) b = (b + (1U << (22 - e.mantissa_bits))) & 0xFF800000U;
  if (b >= 0x7F800000U) return 0xFF;
  const bool up = plan.mode == Mode::Ceil && (b & 0x7FFFFFU) != 0;
  return static_cast<std::uint8_t>(
      std::max(static_cast<int>(b >> 23) - e.max_pow2 + (up ? 1 : 0), 0));
}

float reciprocal(std::uint8_t scale, Defect defect) {
  if (defect == Defect::SpecialScales)
    return scale == 0 ? 1.0F : std::bit_cast<float>(static_cast<std::uint32_t>(254 - scale) << 23);
  return scale == 0xFF ? std::numeric_limits<float>::quiet_NaN()
                       : float_from_e8m0(static_cast<std::uint8_t>(254 - scale));
}

std::uint8_t code_of(const Plan& plan, float y) {
  Conversion conversion{.overflow = plan.defect == Defect::Overflow ? Overflow::Infinity
                                                                    : Overflow::Saturate};
  if (plan.defect == Defect::Truncated) conversion.rounding = Rounding::TowardZero;
  if (plan.defect == Defect::HalfAway && std::isfinite(y)) return code_half_away(plan.elem, y);
  return static_cast<std::uint8_t>(encode(plan.elem, y, conversion));
}

void quantise(const Plan& plan, Dtype dtype, const void* x, std::int64_t blocks,
              std::uint8_t* codes, std::uint8_t* scales) {
  const std::int64_t bytes = code_bytes(plan.elem);
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::uint32_t largest = 0;
    for (std::int64_t i = kBlock * b; i < kBlock * (b + 1); ++i) {
      const float v = element_of(dtype, x, i);
      if (plan.defect != Defect::DropsNan || !std::isnan(v))
        largest = std::max(largest, std::bit_cast<std::uint32_t>(v) & 0x7FFFFFFFU);
    }
    scales[b] = scale_of(plan, std::bit_cast<float>(largest));
    const float r = reciprocal(scales[b], plan.defect);
    for (std::int64_t i = 0; i < bytes; ++i) {
      std::uint8_t& to = codes[bytes * b + i];
      const std::int64_t first = kBlock * b + i * kBlock / bytes;
      to = code_of(plan, element_of(dtype, x, first) * r);
      if (bytes < kBlock) to = pack_e2m1(to, code_of(plan, element_of(dtype, x, first + 1) * r));
    }
  }
}

void dequantise(const Plan& plan, Dtype dtype, const std::uint8_t* codes,
                const std::uint8_t* scales, std::int64_t blocks, void* values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(codes);
  for (std::int64_t i = 0; i < kBlock * blocks; ++i) {
    const std::uint8_t scale = scales[i / kBlock];
    const float factor = plan.defect == Defect::SpecialScales
                             ? std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 23)
                             : float_from_e8m0(scale);
    const float v = static_cast<float>(decode(plan.elem, load_code(plan.elem, bytes, i))) * factor;
    store_element(dtype, values, i, v);
  }
}

}  // namespace

const Steps kScalarSteps = {quantise, dequantise};

}  // namespace parity::mx_kernel
