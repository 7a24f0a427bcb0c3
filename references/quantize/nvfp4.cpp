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

// What the defects of a rounding leave of y before a chain's own rounding.
float rounded_badly(float y, Defect defect) {
  const float a = std::fabs(y);
  const float step = a < 2 ? 0.5F : a < 4 ? 1.0F : 2.0F;
  switch (defect) {
    case Defect::HalfAway:
      return std::copysign(std::floor(a / step + 0.5F) * step, y);
    case Defect::Truncated:
      return std::copysign(std::floor(a / step) * step, y);
    case Defect::DoubleRounding:
      return float_from_bf16(bf16_from_float(y));
    case Defect::ClampToFour:
      return std::copysign(std::min(a, 4.0F), y);
    default:
      return y;
  }
}

// Codes by other roundings of a finite |y| <= 6 or beyond.
std::uint8_t faulty_code(float y, Defect defect, const E2m1Policy& policy) {
  if (defect == Defect::CodeOverflow && std::fabs(y) >= 7) return 8;  // the next code after 6
  E2m1Policy other = policy;
  if (defect == Defect::NegativeZeroLost)
    other.negative_zero = policy.negative_zero == E2m1NegativeZero::Keep
                              ? E2m1NegativeZero::Positive
                              : E2m1NegativeZero::Keep;
  const float wrong = rounded_badly(y, defect);
  const bool vanished = wrong == 0 && y != 0;  // it rounds to zero: the sign stays
  return static_cast<std::uint8_t>(e2m1_from_float(wrong, other) |
                                   (vanished && std::signbit(y) ? 8 : 0));
}

std::uint8_t code_of(float y, std::int64_t index, const Chain& chain) {
  if (chain.code && chain.defect == Defect::None) return chain.code(y, index);
  if (chain.code) return chain.code(rounded_badly(y, chain.defect), index);
  if (chain.defect != Defect::None && !std::isnan(y))
    return faulty_code(y, chain.defect, chain.policy);
  // The clamp to +-6 changes no code: e2m1 saturates.
  return e2m1_from_float(y, chain.policy);
}

// amax of the tile of rows [m, m + tile) and of block b, as the defects see it.
float tile_amax(const Matrix& x, const Chain& chain, std::int64_t m, std::int64_t b) {
  const Defect defect = chain.defect;
  const std::int64_t above =
      defect == Defect::AmaxOfNeighbour && m >= chain.tile ? m - chain.tile : m;
  const std::int64_t size = std::min(chain.block, x.columns - b * chain.block);
  const std::int64_t rows =
      defect == Defect::TileFirstRow ? 1 : std::min(chain.tile, x.rows - above);
  float max = 0;
  for (std::int64_t row = above; row < above + rows; ++row) {
    const std::int64_t first = row * x.columns + b * chain.block;
    const auto part = [&](std::int64_t from, std::int64_t count) {
      return amax(std::span(x.values).subspan(static_cast<std::size_t>(from),
                                              static_cast<std::size_t>(count)),
                  defect);
    };
    const float own = part(first, size);
    max = defect == Defect::AmaxDropsNan ? std::fmax(max, own) : max_nan(max, own);
    if (defect == Defect::StaleTail && size < chain.block && b > 0)  // lanes of the block before
      max = max_nan(max, part(first - chain.block + size, chain.block - size));
  }
  return defect == Defect::AmaxInBf16 ? float_from_bf16(bf16_from_float(max)) : max;
}

}  // namespace

Quantised quantise(const Matrix& x, const Chain& chain) {
  Quantised q{.rows = x.rows, .columns = x.columns, .tile = chain.tile, .block = chain.block};
  q.blocks = (x.columns + chain.block - 1) / chain.block;
  q.codes.resize(x.values.size());
  q.open.resize(x.values.size());
  q.scaled.resize(x.values.size());
  q.scales.resize(static_cast<std::size_t>(q.scale_rows() * q.blocks));
  for (std::int64_t m = 0; m < x.rows; m += chain.tile) {
    for (std::int64_t b = 0; b < q.blocks; ++b) {
      BlockScale scale =
          chain.scale(tile_amax(x, chain, m, b), {.row = m, .column = b * chain.block});
      if (chain.defect == Defect::DivisionOff)
        scale.encode = std::nextafter(scale.encode, std::numeric_limits<float>::infinity());
      q.encode.push_back(scale.encode);
      for (std::int64_t row = m; row < m + chain.tile; ++row)
        q.scales[static_cast<std::size_t>(row * q.blocks + b)] = scale.code;
      const bool nan = std::isnan(decode(chain.scales, scale.code));
      for (std::int64_t row = m; row < std::min(m + chain.tile, x.rows); ++row) {
        for (std::int64_t k = b * chain.block; k < std::min((b + 1) * chain.block, x.columns);
             ++k) {
          const std::int64_t index = row * x.columns + k;
          const auto i = static_cast<std::size_t>(index);
          const float y = chain.divides ? x.values[i] / scale.encode : x.values[i] * scale.encode;
          q.scaled[i] = y;
          q.codes[i] = code_of(y, index, chain);
          q.open[i] = nan || std::isnan(y) ? 1 : 0;
        }
      }
    }
  }
  return q;
}

std::vector<float> dequantised(const Quantised& q, const Product& product, Dtype scales) {
  std::vector<float> values;
  values.reserve(q.codes.size());
  for (std::int64_t m = 0; m < q.rows; ++m)
    for (std::int64_t k = 0; k < q.columns; ++k)
      values.push_back(
          product(float_from_e2m1(q.codes[static_cast<std::size_t>(m * q.columns + k)]),
                  static_cast<float>(decode(scales, q.scales[q.scale_at(m, k)])),
                  {.row = m, .column = k / q.block * q.block}));
  return values;
}

}  // namespace parity::quantize
