// compressed-tensors' MX weights: e2m1, e4m3 or e2m3 (option `elem`), blocks of 32, everything in
// the input dtype (R).
//
//   byte  amax rounded up at a mantissa of 1 bit (e2m1, e4m3 too) or 3 (e2m3), floor(log2), less
//         that of max, 0..255; an amax that is NaN, infinite or rounds to 2^128 has the scale inf
//         and is stored as byte 127
//   code  cast(clamp(R(x / scale) + 0)): no -0         value  R(code scale)
//   e2m3  four codes in three bytes, little endian
//
//   source   compressed-tensors 0.20.1, calculate_qparams (generate_mx_scales), quantize,
//   dequantize
#include <algorithm>
#include <cmath>
#include <limits>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

using quantize::columns_of;
using quantize::matrix_spec;
using quantize::rows_of;

const Element* element(const Case& c) { return element_of(c.options.get("elem", "e2m1")); }
bool packed(const Case& c) { return c.options.get("elem", "e2m1") == "e2m3"; }

std::vector<TensorSpec> outputs_of(const Case& c) {
  const Element* e = element(c);
  std::vector<TensorSpec> specs = outputs(c, e == nullptr ? Dtype::E2M1 : e->dtype);
  const std::int64_t blocks = specs[1].dims[1].extent;
  if (packed(c)) {
    specs[0].dtype = Dtype::U8;
    specs[0].dims[1] = {"KP", columns_of(c) / 4 * 3};
  }
  specs.push_back(matrix_spec("scale_value", Role::Output, c.dtype, rows_of(c), blocks, "KB"));
  specs.push_back(matrix_spec("fake_quant", Role::Output, c.dtype, rows_of(c), columns_of(c), "K"));
  return specs;
}

// The scale itself; infinite where it has no byte.
float scale_of(const Element& e, float amax, Defect defect) {
  const int bits =
      e.dtype == Dtype::E2M3 || defect == Defect::ElementMantissa ? e.mantissa_bits : 1;
  const float power = std::isfinite(amax) ? rounded_even(bits, amax) : amax;
  if (!std::isfinite(power)) return std::numeric_limits<float>::infinity();
  const int exponent = exponent_field(power) - kBias - e.max_pow2;
  return scale_value(static_cast<std::uint8_t>(std::max(exponent, -kBias) + kBias));
}

std::uint8_t byte_of_scale(float scale) {
  if (!std::isfinite(scale)) return kBias;
  return static_cast<std::uint8_t>(exponent_field(scale));  // 2^-127 has the field 0
}

std::vector<std::uint8_t> packed_bytes(const std::vector<std::uint8_t>& codes) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 4 <= codes.size(); i += 4) {
    const unsigned word = codes[i] | static_cast<unsigned>(codes[i + 1]) << 6 |
                          static_cast<unsigned>(codes[i + 2]) << 12 |
                          static_cast<unsigned>(codes[i + 3]) << 18;
    for (unsigned shift = 0; shift < 24; shift += 8)
      bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  return bytes;
}

// A byte is open where any of its codes is.
std::vector<std::uint8_t> packed_open(const std::vector<std::uint8_t>& open) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 4 <= open.size(); i += 4)
    for (std::size_t b = 0; b < 3; ++b) bytes.push_back(open[i + b] | open[i + b + 1]);
  return bytes;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const Element* e = element(c);
  if (e == nullptr || (e->dtype != Dtype::E2M1 && e->dtype != Dtype::E4M3 && !packed(c)))
    return {.refused = "elements are e2m1, e4m3 or e2m3"};
  if (const std::string why = refuses(c); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  const std::int64_t block = block_of(c);
  const std::int64_t blocks = x.columns / block;
  Quantised q{.rows = x.rows, .columns = x.columns, .blocks = blocks};
  std::vector<float> scales;
  for (const float amax : block_maxima(x, block, defect)) {
    scales.push_back(scale_of(*e, amax, defect));
    q.scales.push_back(byte_of_scale(scales.back()));
  }
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const float scale =
        scales[static_cast<std::size_t>(at / x.columns * blocks + at % x.columns / block)];
    const float exact = x.values[i] / scale;
    float y = static_cast<float>(round_to(c.dtype, static_cast<double>(exact)));
    if (defect != Defect::NegativeZero) y += 0.0F;
    q.codes.push_back(code_of(*e, y, defect == Defect::NegativeZero ? Defect::None : defect));
    q.open.push_back(!e->has_nan && std::isnan(y) ? 1 : 0);
    // A NaN has the code of a zero where the format has none; its scale is infinite.
    q.values.push_back(std::isnan(y) ? y : value_of(*e, q.codes.back(), defect) * scale);
  }
  Answer answer(outputs_of(c));
  give(answer, q, defect);
  if (packed(c)) answer.codes("codes", packed_bytes(q.codes), packed_open(q.open));
  answer.values("scale_value", scales);
  answer.values("fake_quant", q.values);
  return answer.take();
}

void import(const StoredCase& stored, ImportedCase& imported) {
  import_torchao(stored, imported);  // the block
  imported.problem.options.set("elem", stored.group.substr(stored.group.rfind('_') + 1));
}

const Register chain{ChainDef{
    .name = "mx_compressed_tensors",
    .what =
        "e = floor(log2(amax rounded up at 1 or 3 bits)) - max_pow2; code = cast(R(x 2^-e) + 0)",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"mx_compressed_tensors_e2m1", "mx_compressed_tensors_e2m3",
               "mx_compressed_tensors_e4m3"},
    .faults = faults_of({Defect::ElementMantissa, Defect::NegativeZero, Defect::HalfAway,
                         Defect::AmaxDropsNan, Defect::AmaxSigned}),
    .import = import,
}};

}  // namespace
}  // namespace parity::mx
