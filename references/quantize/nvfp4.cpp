// Blocks, codes and scales: plain loops, one f32 operation a line.
#include "references/quantize/nvfp4.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace parity::quantize {

Matrix matrix_of(const Tensor& x) {
  Matrix m;
  const auto& dims = x.spec.dims;
  m.columns = dims.empty() ? 1 : dims.back().extent;
  const std::vector<double> wide = x.widened();
  m.rows = m.columns == 0 ? 0 : static_cast<std::int64_t>(wide.size()) / m.columns;
  m.values.reserve(wide.size());
  for (const double v : wide) m.values.push_back(static_cast<float>(v));
  return m;
}

Matrix transposed(const Matrix& x) {
  Matrix t{.rows = x.columns, .columns = x.rows, .values = std::vector<float>(x.values.size())};
  for (std::int64_t m = 0; m < x.rows; ++m)
    for (std::int64_t k = 0; k < x.columns; ++k)
      t.values[static_cast<std::size_t>(k * x.rows + m)] =
          x.values[static_cast<std::size_t>(m * x.columns + k)];
  return t;
}

float min_nan(float a, float b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b); }
float max_nan(float a, float b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b); }

float amax(std::span<const float> values, Defect defect) {
  float max = 0;
  for (const float v : values) {
    const float size = defect == Defect::AmaxSigned ? v : std::fabs(v);
    max = defect == Defect::AmaxDropsNan ? std::fmax(max, size) : max_nan(max, size);
  }
  return max;
}

float calibrated_amax(const Case& c, const Matrix& x, Defect defect) {
  return amax(x.values, defect) * static_cast<float>(c.options.real("amax_factor", 1.0));
}

std::uint8_t scale_code(float scale, Defect defect) {
  if (std::isnan(scale)) return 0x7F;  // the sign of 0/0 is the processor's, and means nothing
  if (defect == Defect::ScaleOverflow) return e4m3_from_float(scale, Overflow::Infinity);
  const float clamped = min_nan(scale, kMaxE4m3);
  if (defect == Defect::ScaleUp || defect == Defect::ScaleTruncated) {
    const Rounding mode = defect == Defect::ScaleUp ? Rounding::Up : Rounding::TowardZero;
    return static_cast<std::uint8_t>(
        encode(Dtype::E4M3, clamped, Conversion{.rounding = mode, .overflow = Overflow::Saturate}));
  }
  return e4m3_from_float(clamped, Overflow::Saturate);
}

float scale_value(std::uint8_t code, Defect defect) {
  const float value = float_from_e4m3(code);
  if (defect != Defect::ScaleImplicitOne || code > 7 || code == 0) return value;
  return kMinNormalE4m3 + value;  // 2^-6 (1 + m/8)
}

namespace {

// Codes by other roundings of a finite |y| <= 6 or beyond.
std::uint8_t faulty_code(float y, Defect defect, const E2m1Policy& policy) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(y) ? 8 : 0);
  const float a = std::fabs(y);
  const float step = a < 2 ? 0.5F : a < 4 ? 1.0F : 2.0F;
  switch (defect) {
    case Defect::HalfAway: {
      const float rounded = std::min(std::floor(a / step + 0.5F) * step, kMaxE2m1);
      return static_cast<std::uint8_t>(e2m1_from_float(rounded) | sign);
    }
    case Defect::Truncated:
      return static_cast<std::uint8_t>(
          e2m1_from_float(std::min(std::floor(a / step) * step, kMaxE2m1)) | sign);
    case Defect::DoubleRounding:
      return e2m1_from_float(float_from_bf16(bf16_from_float(y)), policy);
    case Defect::ClampToFour:
      return e2m1_from_float(std::copysign(std::min(a, 4.0F), y), policy);
    case Defect::CodeOverflow:  // 7 <= |y|: the next code after 6 is 8
      return a >= 7 ? std::uint8_t{8} : e2m1_from_float(y, policy);
    default: {
      E2m1Policy other = policy;
      if (defect == Defect::NegativeZeroLost)
        other.negative_zero = policy.negative_zero == E2m1NegativeZero::Keep
                                  ? E2m1NegativeZero::Positive
                                  : E2m1NegativeZero::Keep;
      return e2m1_from_float(y, other);
    }
  }
}

std::uint8_t code_of(float y, const Chain& chain) {
  if (chain.defect != Defect::None && !std::isnan(y))
    return faulty_code(y, chain.defect, chain.policy);
  // The clamp to +-6 changes no code: e2m1 saturates.
  return e2m1_from_float(y, chain.policy);
}

// amax of block b of row m, as the defects see it.
float block_amax(const Matrix& x, std::int64_t m, std::int64_t b, Defect defect) {
  const std::int64_t row = defect == Defect::AmaxOfNeighbour && m > 0 ? m - 1 : m;
  const std::int64_t first = row * x.columns + b * kBlock;
  const std::int64_t size = std::min(kBlock, x.columns - b * kBlock);
  float max = amax(
      std::span(x.values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size)),
      defect);
  if (defect == Defect::StaleTail && size < kBlock && b > 0) {  // lanes of the block before
    const std::int64_t stale = first - kBlock + size;
    max = max_nan(max, amax(std::span(x.values).subspan(static_cast<std::size_t>(stale),
                                                        static_cast<std::size_t>(kBlock - size)),
                            defect));
  }
  return defect == Defect::AmaxInBf16 ? float_from_bf16(bf16_from_float(max)) : max;
}

}  // namespace

Quantised quantise(const Matrix& x, const Chain& chain) {
  Quantised q{.rows = x.rows, .columns = x.columns, .blocks = blocks_of(x.columns)};
  for (std::int64_t m = 0; m < x.rows; ++m) {
    for (std::int64_t b = 0; b < q.blocks; ++b) {
      BlockScale scale = chain.scale(block_amax(x, m, b, chain.defect));
      if (chain.defect == Defect::DivisionOff)
        scale.encode = std::nextafter(scale.encode, std::numeric_limits<float>::infinity());
      q.scales.push_back(scale.code);
      q.encode.push_back(scale.encode);
      for (std::int64_t k = b * kBlock; k < std::min((b + 1) * kBlock, x.columns); ++k) {
        const float y = x.values[static_cast<std::size_t>(m * x.columns + k)] * scale.encode;
        q.codes.push_back(code_of(y, chain));
        q.open.push_back(std::isnan(y) || std::isnan(float_from_e4m3(scale.code)) ? 1 : 0);
        q.clamped.push_back(std::fabs(y) > kMaxE2m1 ? 1 : 0);
      }
    }
  }
  return q;
}

std::vector<float> dequantised(const Quantised& q,
                               const std::function<float(float code, float scale)>& product) {
  std::vector<float> values;
  values.reserve(q.codes.size());
  for (std::int64_t m = 0; m < q.rows; ++m)
    for (std::int64_t k = 0; k < q.columns; ++k)
      values.push_back(
          product(float_from_e2m1(q.codes[static_cast<std::size_t>(m * q.columns + k)]),
                  float_from_e4m3(q.scales[static_cast<std::size_t>(m * q.blocks + k / kBlock)])));
  return values;
}

}  // namespace parity::quantize
