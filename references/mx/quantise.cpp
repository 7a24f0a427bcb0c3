#include "references/mx/quantise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "references/quantize/layout.hpp"

namespace parity::mx {
namespace {

using quantize::columns_of;
using quantize::rows_of;

quantize::Defect amax_defect(Defect defect) {
  if (defect == Defect::AmaxDropsNan) return quantize::Defect::AmaxDropsNan;
  if (defect == Defect::AmaxSigned) return quantize::Defect::AmaxSigned;
  return quantize::Defect::None;
}

// Bytes of four scales through one word, each shifted to its place; what stands below an exponent
// reaches the bytes beneath.
void pack_with_mantissas(std::vector<std::uint8_t>& scales, const std::vector<float>& maxima,
                         int max_pow2) {
  const auto lifted = [&](std::size_t i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(maxima[i]);
    const auto down = static_cast<std::uint32_t>(max_pow2) << 23;
    return bits > down ? bits - down : 0;
  };
  for (std::size_t i = 0; i + 4 <= scales.size(); i += 4) {
    const std::uint32_t word =
        lifted(i) >> 23 | lifted(i + 1) >> 15 | lifted(i + 2) >> 7 | lifted(i + 3) << 1;
    for (std::size_t j = 0; j < 4; ++j) scales[i + j] = static_cast<std::uint8_t>(word >> (8 * j));
  }
}

}  // namespace

std::vector<float> block_maxima(const Matrix& x, std::int64_t block, Defect defect) {
  std::vector<float> maxima;
  for (std::int64_t m = 0; m < x.rows; ++m) {
    const std::int64_t row = defect == Defect::AmaxOfNeighbour && m > 0 ? m - 1 : m;
    for (std::int64_t k = 0; k < x.columns; k += block)
      maxima.push_back(quantize::amax(
          std::span(x.values).subspan(static_cast<std::size_t>(row * x.columns + k),
                                      static_cast<std::size_t>(std::min(block, x.columns - k))),
          amax_defect(defect)));
  }
  return maxima;
}

Chain plain_chain(const Element& e, std::int64_t block, Defect defect) {
  return {
      .element = e,
      .block = block,
      .scaled = [=](float x, std::uint8_t scale) { return x * reciprocal(scale, defect); },
      .cast = [=](float y) { return code_of(e, y, defect); },
      .value = [=](float value, std::uint8_t scale) { return value * scale_value(scale, defect); },
      .defect = defect};
}

Quantised quantise(const Matrix& x, const Chain& chain) {
  Quantised q{
      .rows = x.rows, .columns = x.columns, .blocks = (x.columns + chain.block - 1) / chain.block};
  const std::vector<float> maxima = block_maxima(x, chain.block, chain.defect);
  for (const float amax : maxima) {
    const std::uint8_t byte = chain.scale(amax);
    q.scales.push_back(
        static_cast<std::uint8_t>(chain.defect == Defect::Bias128 ? byte + 1 : byte));
  }
  if (chain.defect == Defect::PackedMantissa)
    pack_with_mantissas(q.scales, maxima, chain.element.max_pow2);
  for (std::int64_t m = 0; m < x.rows; ++m) {
    for (std::int64_t k = 0; k < x.columns; ++k) {
      const std::uint8_t scale = q.scales[static_cast<std::size_t>(m * q.blocks + k / chain.block)];
      const float y = chain.scaled(x.values[static_cast<std::size_t>(m * x.columns + k)], scale);
      const std::uint8_t code = chain.cast(y);
      q.codes.push_back(code);
      q.open.push_back(!chain.element.has_nan && std::isnan(y) ? 1 : 0);
      q.values.push_back(chain.value(value_of(chain.element, code, chain.defect), scale));
    }
  }
  return q;
}

std::int64_t block_of(const Case& c) { return c.options.integer("block", kBlock); }

std::vector<TensorSpec> outputs(const Case& c, Dtype element) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  const std::int64_t blocks = (columns + block_of(c) - 1) / block_of(c);
  std::vector<TensorSpec> specs = {
      quantize::matrix_spec("codes", Role::Codes, element, rows, columns, "K"),
      quantize::matrix_spec("scales", Role::Scales, Dtype::E8M0, rows, blocks, "KB")};
  if (c.options.flag("swizzle"))
    specs.push_back(quantize::row_spec("scales_swizzled", Role::Scales, Dtype::E8M0,
                                       quantize::swizzled_bytes(rows, blocks)));
  if (c.options.flag("dequant"))
    specs.push_back(quantize::matrix_spec("dequant", Role::Output, c.dtype, rows, columns, "K"));
  return specs;
}

std::string refuses(const Case& c) {
  const std::int64_t block = block_of(c);
  if (block < 1) return "blocks of " + std::to_string(block) + " elements";
  if (columns_of(c) % block != 0) return "rows are no multiple of " + std::to_string(block);
  return "";
}

void give(Answer& answer, const Quantised& q, Defect defect) {
  std::vector<std::uint8_t> codes = q.codes;
  if (defect == Defect::NibblesSwapped)
    for (std::size_t i = 0; i + 1 < codes.size(); i += 2) std::swap(codes[i], codes[i + 1]);
  answer.codes("codes", codes, q.open);
  answer.codes("scales", q.scales);
  if (answer.asks_for("scales_swizzled"))
    answer.codes("scales_swizzled", quantize::swizzled(q.scales, q.rows, q.blocks));
  std::vector<std::uint8_t> open = q.open;  // a NaN without a code under a finite scale
  for (std::size_t i = 0; i < open.size(); ++i)
    if (std::isnan(q.values[i])) open[i] = 0;
  answer.values("dequant", q.values, open);
}

Expected run(const Case& c, const Tensors& inputs, const Chain& chain) {
  if (const std::string why = refuses(c); !why.empty()) return {.refused = why};
  Answer answer(outputs(c, chain.element.dtype));
  give(answer, quantise(quantize::matrix_of(inputs.at("x")), chain), chain.defect);
  return answer.take();
}

}  // namespace parity::mx
