// One element at a time, through the codecs of the hub: what the vector forms must equal, and the
// home of arithmetic defects.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/numeric/exact_sum.hpp"
#include "harness/numeric/formats.hpp"
#include "kernels/quantize/steps.hpp"

namespace parity::nvfp4 {
namespace {

float element(Dtype dtype, const void* x, std::int64_t i) {
  if (dtype == Dtype::BF16) return float_from_bf16(static_cast<const std::uint16_t*>(x)[i]);
  return static_cast<const float*>(x)[i];
}

std::uint32_t size_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU; }

std::uint32_t amax(Dtype dtype, const void* x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, size_bits(element(dtype, x, i)));
  return largest;
}

std::uint8_t scale_code(const Plan& plan, float scale) {
  if (std::isnan(scale)) return 0x7F;
  if (plan.defect != Defect::ScaleUp) return e4m3_from_float(scale, Overflow::Saturate);
  return static_cast<std::uint8_t>(
      encode(Dtype::E4M3, scale, {.rounding = Rounding::Up, .overflow = Overflow::Saturate}));
}

struct Scale {
  std::uint8_t code;
  float encode;
};

Scale scale_of(const Plan& plan, float block_amax) {
  constexpr float kTop = 448.0F;
  Scale scale{};
  if (plan.order != Order::Decode) {
    float wide = plan.order == Order::Encode ? block_amax * plan.mult
                                             : block_amax / 6.0F * plan.mult * plan.times;
    if (wide > kTop) wide = kTop;
    scale.code = scale_code(plan, wide);
    const float kept = plan.defect == Defect::ExactScale ? wide : float_from_e4m3(scale.code);
    scale.encode =
        plan.defect == Defect::ReciprocalOrder ? 1 / plan.decode / kept : 1 / (kept * plan.decode);
    if (scale.encode > std::numeric_limits<float>::max())
      scale.encode = std::numeric_limits<float>::max();
    return scale;
  }
  float wide = block_amax / 6.0F / plan.decode;
  if (wide < 0x1p-6F) wide = 0x1p-6F;
  if (wide > kTop) wide = kTop;
  scale.code = scale_code(plan, wide);
  const float kept = plan.defect == Defect::ExactScale ? wide : float_from_e4m3(scale.code);
  scale.encode =
      plan.defect == Defect::ReciprocalOrder ? 1 / (plan.decode * kept) : plan.inverse / kept;
  return scale;
}

std::uint8_t code_of(const Plan& plan, float y) {
  const E2m1Policy policy{.negative_zero = plan.positive_zero ? E2m1NegativeZero::Positive
                                                              : E2m1NegativeZero::Keep};
  if (plan.defect != Defect::HalfAway && plan.defect != Defect::Truncated)
    return e2m1_from_float(y, policy);
  const float a = std::fabs(y);
  const float step = a < 2 ? 0.5F : a < 4 ? 1.0F : 2.0F;
  const float half = plan.defect == Defect::HalfAway ? 0.5F : 0.0F;
  return e2m1_from_float(std::copysign(std::floor(a / step + half) * step, y), policy);
}

// A NaN where one is and is not dropped.
float largest_of(Defect defect, Dtype dtype, const void* x, std::int64_t block) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 16 * block; i < 16 * block + 16; ++i) {
    const float v = element(dtype, x, i);
    if (defect != Defect::DropsNan || !std::isnan(v)) largest = std::max(largest, size_bits(v));
  }
  return std::bit_cast<float>(largest);
}

void block_amax(Dtype dtype, const void* x, std::int64_t blocks, float* to) {
  for (std::int64_t b = 0; b < blocks; ++b) to[b] = largest_of(Defect::None, dtype, x, b);
}

void scales(const Plan& plan, const float* amaxes, std::int64_t blocks, std::uint8_t* to,
            float* encode) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Scale scale = scale_of(plan, amaxes[b]);
    to[b] = scale.code;
    encode[b] = scale.encode;
  }
}

void codes_under(const Plan& plan, Dtype dtype, const void* x, std::int64_t blocks,
                 const float* encode, std::uint8_t* codes) {
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t i = 0; i < 8; ++i)
      codes[8 * b + i] =
          pack_e2m1(code_of(plan, element(dtype, x, 16 * b + 2 * i) * encode[b]),
                    code_of(plan, element(dtype, x, 16 * b + 2 * i + 1) * encode[b]));
}

void quantise(const Plan& plan, Dtype dtype, const void* x, std::int64_t blocks,
              std::uint8_t* codes, std::uint8_t* to, float* encode) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Scale scale = scale_of(plan, largest_of(plan.defect, dtype, x, b));
    to[b] = scale.code;
    if (encode != nullptr) encode[b] = scale.encode;
    const std::int64_t size = dtype == Dtype::BF16 ? 2 : 4;
    codes_under(plan, dtype, static_cast<const std::byte*>(x) + 16 * b * size, 1, &scale.encode,
                codes + 8 * b);
  }
}

void errors(const Plan& plan, Dtype dtype, const void* x, const std::uint8_t* codes,
            const std::uint8_t* scales_of_x, std::int64_t blocks, float* to) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float scale = float_from_e4m3(scales_of_x[b]);
    float sum = 0;
    for (std::int64_t i = 0; i < 16; ++i) {
      const auto code = static_cast<std::uint8_t>(codes[8 * b + i / 2] >> (4 * (i % 2)) & 15);
      const float q = float_from_e2m1(code) * scale;
      const float v = element(dtype, x, 16 * b + i);
      const float d = plan.fast_error ? q - v * plan.mult : q * plan.amax / plan.bound - v;
      sum += plan.square ? d * d : std::fabs(d);
    }
    to[b] = sum;
  }
}

void transform(const std::uint16_t* x, std::int64_t stride, std::int64_t columns,
               const float* signs, std::uint16_t* to, std::int64_t pitch) {
  for (std::int64_t k = 0; k < columns; ++k) {
    for (unsigned j = 0; j < 16; ++j) {
      ExactSum sum;
      for (unsigned i = 0; i < 16; ++i) {
        const float term = float_from_bf16(x[i * stride + k]) * signs[i];
        sum.add(static_cast<double>(std::popcount(i & j) % 2 == 0 ? term : -term));
      }
      to[k * pitch + j] = static_cast<std::uint16_t>(encode(Dtype::BF16, sum.value() * 0.25));
    }
  }
}

void dequantise(const Plan& plan, Dtype dtype, const std::uint8_t* codes,
                const std::uint8_t* scales, std::int64_t blocks, void* values) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float scale = float_from_e4m3(scales[b]);
    const float factor = plan.order == Order::Encode   ? scale * plan.amax * (1.0F / 2688.0F)
                         : plan.order == Order::Choice ? scale
                                                       : plan.decode * scale;
    for (std::int64_t i = 0; i < 16; ++i) {
      const auto code = static_cast<std::uint8_t>(codes[8 * b + i / 2] >> (4 * (i % 2)) & 15);
      float v = float_from_e2m1(code) * factor;
      if (plan.order == Order::Choice) v = v * plan.amax / plan.bound;
      if (dtype == Dtype::BF16)
        static_cast<std::uint16_t*>(values)[16 * b + i] = bf16_from_float(v);
      else
        static_cast<float*>(values)[16 * b + i] = v;
    }
  }
}

}  // namespace

const Steps kScalarSteps = {amax,   quantise,    dequantise, block_amax,
                            scales, codes_under, errors,     transform};

}  // namespace parity::nvfp4
