// One element at a time, through the codecs of the hub: what the vector forms must equal, the end
// of a run, and the home of arithmetic defects.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/fp8/steps.hpp"
#include "kernels/quantize/scalar.hpp"

namespace parity::fp8_kernel {
namespace {

std::uint32_t size_bits(const Plan& plan, float x) {
  if (plan.defect == Defect::DropsNan && std::isnan(x)) return 0;
  return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU;
}

std::uint32_t amax(const Plan& plan, Dtype dtype, const void* x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    largest = std::max(largest, size_bits(plan, element_of(dtype, x, i)));
  return largest;
}

void amax_by_element(const Plan& plan, Dtype dtype, const void* x, std::int64_t n,
                     std::uint32_t* largest) {
  for (std::int64_t i = 0; i < n; ++i)
    largest[i] = std::max(largest[i], size_bits(plan, element_of(dtype, x, i)));
}

std::uint8_t code_of(const Plan& plan, float y) {
  if (plan.defect == Defect::HalfAway && std::isfinite(y)) return code_half_away(plan.elem, y);
  return plan.elem == Dtype::E5M2 ? e5m2_from_float(y, Overflow::Saturate)
                                  : e4m3_from_float(y, Overflow::Saturate);
}

void quantise(const Plan& plan, Dtype dtype, const void* x, std::int64_t n, const float* scale,
              std::uint8_t* codes) {
  for (std::int64_t i = 0; i < n; ++i)
    codes[i] = code_of(plan, element_of(dtype, x, i) * scale[plan.by_element ? i : 0]);
}

void dequantise(const Plan& plan, Dtype dtype, const std::uint8_t* codes, std::int64_t n,
                const float* scale, void* values) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float s = scale[plan.by_element ? i : 0];
    const float code =
        plan.elem == Dtype::E5M2 ? float_from_e5m2(codes[i]) : float_from_e4m3(codes[i]);
    const float v = plan.defect == Defect::Multiplied ? code * (1 / s) : code / s;
    store_element(dtype, values, i, v);
  }
}

}  // namespace

const Steps kScalarSteps = {amax, amax_by_element, quantise, dequantise};

}  // namespace parity::fp8_kernel
