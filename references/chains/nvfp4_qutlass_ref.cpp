// The NVFP4 reference of qutlass's tests, in float64 (not the formula of its kernel):
//   s = e4m3 without saturation of f32(bamax + 1e-8)         y = (x / s) 6
//   code = e2m1(y), 8 where y is zero     dequant = code s / 6, in f64: the 6 stays in the scale
//   clip_mask   bit i of byte j: |y| < 6 for element 8 j + i
// Its own assertion refuses what has a NaN scale (bamax above 464).
//   source   qutlass e74319e3, tests/nvfp4_test.py, _forward_quantize_ref
#include <cmath>

#include "references/quantize/import.hpp"
#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {
namespace {

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  TensorSpec mask = values_spec("clip_mask", Dtype::U8, rows, columns / 8);
  mask.role = Role::Codes;
  return traced_or(c, {codes_spec("codes", rows, columns), scales_spec("scales", rows, columns),
                       values_spec("dequant", Dtype::F64, rows, columns), std::move(mask)});
}

// Nearest even of a double, -0 or whatever is zero as -0.
std::uint8_t code_of(double y, Defect defect) {
  if (std::isnan(y)) return 7;
  if (y == 0 && defect != Defect::NegativeZeroLost) return 8;
  return static_cast<std::uint8_t>(encode(
      Dtype::E2M1, y,
      {.rounding = defect == Defect::Truncated ? Rounding::TowardZero : Rounding::NearestEven,
       .overflow = Overflow::Saturate}));
}

struct Blocks {
  Quantised q = {};
  std::vector<double> scaled = {};
  std::vector<double> dequant = {};
  bool nan = false;
};

Blocks blocks_of_reference(const Matrix& x, Defect defect) {
  Blocks b;
  const double epsilon = defect == Defect::GuardMissing ? 0 : 1e-8;
  b.q = quantise(x, {.scale =
                         [&](float block_amax, const Place&) {
                           const double sum = static_cast<double>(block_amax) + epsilon;
                           BlockScale block;
                           block.code =
                               e4m3_from_float(static_cast<float>(sum), Overflow::Infinity);
                           block.encode = 6 / float_from_e4m3(block.code);
                           b.nan = b.nan || block.code == 0x7F;
                           return block;
                         },
                     .defect = defect});
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto s = static_cast<double>(
        float_from_e4m3(b.q.scales[b.q.scale_at(at / x.columns, at % x.columns)]));
    const double y = defect == Defect::ReciprocalOrder ? static_cast<double>(x.values[i]) * (6 / s)
                                                       : static_cast<double>(x.values[i]) / s * 6;
    b.scaled.push_back(y);
    b.q.codes[i] = code_of(y, defect);
    b.q.open[i] = std::isnan(y) ? 1 : 0;
    b.dequant.push_back(static_cast<double>(float_from_e2m1(b.q.codes[i])) * s / 6);
  }
  return b;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  const Blocks b = blocks_of_reference(x, defect);
  if (b.nan) return {.refused = "a block's amax above 464: its e4m3 scale would be NaN"};
  Result result{.rows = b.q};
  result.values["tensor_amax"] = {amax(x.values)};
  for (const double v : b.dequant) result.dequant.push_back(static_cast<float>(v));
  std::vector<float> mask;
  for (std::size_t i = 0; i < b.scaled.size(); i += 8) {
    int byte = 0;
    for (std::size_t bit = 0; bit < 8; ++bit) {
      const double a = std::fabs(b.scaled[i + bit]);
      const bool inside = defect == Defect::ClampToFour ? a <= 6 : a < 6;
      byte |= static_cast<int>(inside) << bit;
    }
    mask.push_back(static_cast<float>(byte));
  }
  result.values["clip_mask"] = std::move(mask);
  Expected expected = expected_of(outputs(c), inputs, result, defect);
  for (ExpectedTensor& t : expected.tensors) {
    if (t.spec.name != "dequant") continue;
    t.value = b.dequant;
    for (std::size_t i = 0; i < t.value.size(); ++i) t.scale[i] = std::fabs(t.value[i]);
    t.bits = make_tensor(t.spec, t.value).bytes;
  }
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  const std::string rotation = attribute(stored, "rotation");
  if (!rotation.empty() && rotation != "identity")
    imported.unsupported = "rotation '" + rotation + "'";
}

const Register chain{ChainDef{
    .name = "nvfp4_qutlass_ref",
    .what = "qutlass's test reference in f64: s = e4m3(bamax + 1e-8), y = (x/s) 6, the 6 stays in "
            "the global scale",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_qutlass_absmax_ref"},
    .faults = faults_of({Defect::NegativeZeroLost, Defect::Truncated, Defect::ClampToFour}),
    .import = import,
}};

}  // namespace
}  // namespace parity::quantize
