#include "references/train_serve/pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/failure.hpp"
#include "harness/numeric/formats.hpp"
#include "references/quantize/layout.hpp"

namespace parity::train_serve {
namespace {

constexpr std::int64_t kBlock = 16;
constexpr float kPer2688 = 1.0F / 2688.0F;

Side side_of(const std::string& chain) {
  Side side{.chain = chain};
  side.te = chain == "nvfp4_te" || chain == "nvfp4_ao_te";
  side.int4 = chain == "int_affine";
  if (side.int4) side.block = 32;
  return side;
}

Options options_of(const Side& side) {
  Options o{{"chain", side.chain}};
  if (side.int4) {
    o.set("qmin", "-8");
    o.set("qmax", "7");
    o.set("block", "1x32");
  }
  return o;
}

float rounded(Dtype dtype, float v) {
  return static_cast<float>(round_to(dtype, static_cast<double>(v)));
}

}  // namespace

Class class_of(const Case& c) {
  const std::string text = c.options.get("class", "P0");
  constexpr std::array<std::pair<std::string_view, Class>, 7> kNames = {{{"P0", Class::P0},
                                                                         {"P1", Class::P1},
                                                                         {"P2", Class::P2},
                                                                         {"P3", Class::P3},
                                                                         {"P4", Class::P4},
                                                                         {"P5", Class::P5},
                                                                         {"P7", Class::P7}}};
  for (const auto& [name, value] : kNames)
    if (name == text) return value;
  throw UsageError("no class '" + text + "' (P0, P1, P2, P3, P4, P5, P7)");
}

Side training_side(const Case& c, std::string_view fault) {
  const std::string chain = c.options.get("train", c.options.get("serve", "nvfp4_torchao_b2"));
  if (fault != "P-ts-chain") return side_of(chain);
  if (chain == "int_affine") return side_of("int_affine");  // its own divisor, below
  return side_of(chain == "nvfp4_torchao_b2" ? "nvfp4_te" : "nvfp4_torchao_b2");
}

Side serving_side(const Case& c) { return side_of(c.options.get("serve", "nvfp4_torchao_b2")); }

Held quantised(const Side& side, const Case& c, const Tensor& w) {
  const linear::Operand o = linear::run_chain(options_of(side), w);
  if (!o.refused.empty()) throw Failure("the chain refuses the weight: " + o.refused);
  Held held;
  const ExpectedTensor& codes = o.part("codes");
  const auto n = static_cast<std::int64_t>(codes.value.size());
  for (std::int64_t i = 0; i < n; ++i)
    held.codes.push_back(
        static_cast<std::uint8_t>(load_code(codes.spec.dtype, codes.bits.data(), i)));
  if (side.int4) {
    held.scales = o.part("scale").value;
  } else {
    const ExpectedTensor& scales = o.part("scales");
    held.scales = scales.value;
    for (std::size_t i = 0; i < scales.value.size(); ++i)
      held.scale_bytes.push_back(std::to_integer<std::uint8_t>(scales.bits[i]));
    held.scalar = static_cast<float>(o.number(side.te ? "amax_row" : "tensor_scale"));
  }
  const std::int64_t columns = w.spec.dims.at(1).extent;
  for (std::size_t i = 0; i < held.codes.size(); ++i)
    held.values.push_back(rounded(c.dtype, decoded(side, held, i, columns)));
  return held;
}

float decoded(const Side& side, const Held& held, std::size_t element, std::int64_t columns,
              bool scale_first) {
  const auto i = static_cast<std::int64_t>(element);
  const std::int64_t group = i / columns * (columns / side.block) + i % columns / side.block;
  const auto scale = static_cast<float>(held.scales[static_cast<std::size_t>(group)]);
  if (side.int4) return static_cast<float>(static_cast<std::int8_t>(held.codes[element])) * scale;
  const float code = float_from_e2m1(held.codes[element]);
  const float of_tensor = side.te ? held.scalar * kPer2688 : held.scalar;
  if (!scale_first) return code * scale * of_tensor;
  return side.te ? code * (scale * held.scalar * kPer2688) : code * (held.scalar * scale);
}

Packed packed(const Side& side, const Held& held, std::int64_t rows, std::int64_t columns,
              std::string_view fault) {
  Packed p;
  for (std::size_t i = 0; i + 1 < held.codes.size(); i += 2) {
    const unsigned low = held.codes[i] & 15U, high = held.codes[i + 1] & 15U;
    p.codes.push_back(
        static_cast<std::uint8_t>(fault == "P-ts-nibbles" ? low << 4 | high : low | high << 4));
  }
  if (side.int4) return p;
  p.scales = quantize::swizzled(held.scale_bytes, rows, columns / kBlock);
  if (fault == "P-ts-padding") {
    const std::vector<std::uint8_t> marked = quantize::swizzled(
        std::vector<std::uint8_t>(held.scale_bytes.size(), 1), rows, columns / kBlock);
    for (std::size_t i = 0; i < marked.size(); ++i)
      if (marked[i] == 0) p.scales[i] = 0x7F;
  }
  if (fault == "P-ts-swizzled-twice")
    p.scales =
        quantize::swizzled(p.scales, (rows + 127) / 128 * 128, (columns / kBlock + 3) / 4 * 4);
  return p;
}

Held unpacked(const Side& side, const Packed& p, const Held& from, std::int64_t rows,
              std::int64_t columns, std::string_view fault) {
  Held held{.scales = from.scales, .scalar = from.scalar};
  for (const std::uint8_t byte : p.codes)
    for (const unsigned nibble : {byte & 15U, static_cast<unsigned>(byte >> 4)}) {
      const bool negative = side.int4 && nibble >= 8 && fault != "P-ts-unsigned";
      held.codes.push_back(static_cast<std::uint8_t>(negative ? nibble | 0xF0U : nibble));
    }
  if (side.int4) return held;
  held.scale_bytes = fault == "P-ts-linear-scales"
                         ? std::vector<std::uint8_t>(
                               p.scales.begin(), p.scales.begin() + std::ssize(from.scale_bytes))
                         : quantize::unswizzled(p.scales, rows, columns / kBlock);
  held.scales.clear();
  for (const std::uint8_t byte : held.scale_bytes)
    held.scales.push_back(static_cast<double>(float_from_e4m3(byte)));
  if (fault == "P-ts-inverted") held.scalar = 1 / held.scalar;
  return held;
}

linear::Dense served(const linear::Dense& x, const std::vector<float>& w, std::int64_t rows,
                     float factor, std::string_view fault) {
  linear::Dense y{.rows = x.rows, .columns = rows};
  const std::int64_t blocks = x.columns / kBlock;
  for (std::int64_t m = 0; m < x.rows; ++m)
    for (std::int64_t n = 0; n < rows; ++n) {
      float sum = 0;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t at = fault == "P-ts-order" ? blocks - 1 - b : b;
        float part = 0;
        for (std::int64_t k = at * kBlock; k < (at + 1) * kBlock; ++k)
          part += static_cast<float>(x.at(m, k)) * w[static_cast<std::size_t>(n * x.columns + k)];
        sum += part;
        if (fault == "P-ts-bf16-sum") sum = float_from_bf16(bf16_from_float(sum));
      }
      y.values.push_back(static_cast<double>(sum * factor));
    }
  return y;
}

std::int64_t chain_violations(const Tensor& w, const Held& a, const Held& b, std::int64_t columns) {
  const std::vector<double> x = w.widened();
  std::int64_t violations = 0;
  for (std::size_t i = 0; i < a.scale_bytes.size(); ++i)
    violations += std::abs(int{a.scale_bytes[i]} - int{b.scale_bytes[i]}) > 1 ? 1 : 0;
  constexpr std::array<double, 7> kThresholds = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  constexpr double kNear = 8 * 0x1p-23;  // a few ulp of f32
  double amax = 0;
  for (const double v : x) amax = std::max(amax, std::fabs(v));
  for (std::size_t i = 0; i < a.codes.size(); ++i) {
    if (a.codes[i] == b.codes[i]) continue;
    const int apart = std::abs(int{a.codes[i] & 7} - int{b.codes[i] & 7});
    const bool sign = (a.codes[i] & 8) != (b.codes[i] & 8);
    const auto block =
        static_cast<std::size_t>(static_cast<std::int64_t>(i) / columns * (columns / kBlock) +
                                 static_cast<std::int64_t>(i) % columns / kBlock);
    const double y = std::fabs(x[i]) / (a.scales[block] * amax / 2688);
    const bool near =
        std::ranges::any_of(kThresholds, [&](double t) { return std::fabs(y - t) <= kNear * t; });
    const bool other_scale = a.scale_bytes[block] != b.scale_bytes[block];
    if (sign || apart > 1 || (!near && !other_scale)) ++violations;
  }
  return violations;
}

double sqnr(const std::vector<double>& truth, const std::vector<double>& got) {
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    signal += truth[i] * truth[i];
    noise += (got[i] - truth[i]) * (got[i] - truth[i]);
  }
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

}  // namespace parity::train_serve
