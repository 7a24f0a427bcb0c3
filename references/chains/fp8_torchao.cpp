// torchao's dynamic float8 (training): one scale a tensor, a row or a column (option granularity),
// e4m3 or e5m2 (option elem), perhaps a power of two (pow2=1).
//
//   scale   = f32(double(max) / max(double(amax), 1e-12));  pow2: exp2(floor(log2f(scale)))
//   code    = cast(clamp(fl(x scale), -max, max))           inverse_scale = fl(1 / scale)
//   dequant = R(fl(code / scale)) of a tensor; f32 where scales have an axis
//
//   source   torchao 0.18.0, float8/float8_scaling_utils.py, hp_tensor_to_float8_dynamic
#include <algorithm>
#include <cmath>

#include "references/fp8/scaled.hpp"

namespace parity::fp8 {
namespace {

constexpr double kLeastAmax = 1e-12;

bool of_tensor(const Case& c) { return c.options.get("granularity", "tensor") == "tensor"; }

std::vector<TensorSpec> outputs_of(const Case& c) {
  const std::string granularity = c.options.get("granularity", "tensor");
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  const std::int64_t scales = granularity == "row" ? rows : granularity == "column" ? columns : 1;
  std::vector<TensorSpec> specs = {
      matrix_spec("codes", Role::Codes, format_of(c).dtype, rows, columns, "K"),
      row_spec("scale", Role::Output, Dtype::F32, scales),
      row_spec("inverse_scale", Role::Output, Dtype::F32, scales)};
  if (c.options.flag("dequant"))
    specs.push_back(matrix_spec("dequant", Role::Output, of_tensor(c) ? c.dtype : Dtype::F32, rows,
                                columns, "K"));
  return specs;
}

float scale_of(const Case& c, const Format8& f, float amax, Defect defect) {
  const double max = defect == Defect::MaxOfE4m3 ? 448.0 : static_cast<double>(f.max);
  double divisor = static_cast<double>(amax);
  if (defect == Defect::FloorNarrow) {
    divisor = std::max(divisor, round_to(Dtype::BF16, kLeastAmax));
  } else if (defect != Defect::FloorMissing) {
    divisor = divisor < kLeastAmax ? kLeastAmax : divisor;  // a NaN stays
  }
  auto scale = static_cast<float>(max / divisor);
  if (defect == Defect::ScaleTwice) scale = 1 / static_cast<float>(divisor / max);
  if (c.options.flag("pow2") && defect != Defect::PowerMissing) scale = floor_power(scale, defect);
  return scale;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses_format(c); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  const Format8 f = format_of(c);
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  const Groups groups = groups_of(c, x);
  std::vector<float> scales, inverse;
  for (const float amax : maxima(x, groups, defect)) {
    scales.push_back(scale_of(c, f, amax, defect));
    inverse.push_back(1 / scales.back());
  }
  const Groups used = groups_of(c, x, defect);
  std::vector<std::uint8_t> codes;
  std::vector<float> values;
  for (std::int64_t i = 0; i < std::ssize(x.values); ++i) {
    const std::size_t g = used.of(i) % scales.size();
    const float y = x.values[static_cast<std::size_t>(i)] * scales[g];
    const float clamped = std::isnan(y) ? y : std::clamp(y, -f.max, f.max);
    codes.push_back(cast(f, clamped, Overflow::Saturate, defect));
    const float value = value_of(f, codes.back(), defect);
    values.push_back(defect == Defect::DequantMultiplied ? value * inverse[g] : value / scales[g]);
  }
  Answer answer(outputs_of(c));
  answer.codes("codes", codes);
  answer.values("scale", scales);
  answer.values("inverse_scale", inverse);
  answer.values("dequant", values);
  return answer.take();
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Options& options = imported.problem.options;
  options.set("elem", element_name(quantize::attribute_of(stored, "float8_dtype")));
  quantize::take_option(stored, "granularity", "granularity", options);
  if (options.get("granularity", "") == "tensorwise") options.set("granularity", "tensor");
  if (quantize::attribute_of(stored, "axiswise_dim") == "0") options.set("granularity", "column");
  if (quantize::flag_of(stored, "round_scales_to_power_of_2")) options.set("pow2", "1");
}

const Register chain{ChainDef{
    .name = "fp8_torchao",
    .what =
        "scale = f32(max / max(amax, 1e-12)), perhaps a power of two; code = cast(clamp(x scale))",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"fp8_torchao_e4m3", "fp8_torchao_e5m2"},
    .faults = faults_of({Defect::FloorMissing, Defect::FloorNarrow, Defect::ScaleTwice,
                         Defect::MaxOfE4m3, Defect::PowerUp, Defect::PowerMissing,
                         Defect::OtherAxis, Defect::DequantMultiplied, Defect::AmaxInBf16,
                         Defect::AmaxDropsNan, Defect::AmaxSigned, Defect::HalfAway,
                         Defect::DoubleRounding, Defect::ShiftWraps, Defect::ImplicitOne}),
    .import = import,
}};

}  // namespace
}  // namespace parity::fp8
