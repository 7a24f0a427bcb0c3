// modelopt's FP8 fake quantiser: e4m3, one scale a tensor or a row (option granularity).
//
//   a   = amax <= 2^-24 ? 1 : amax            s = fl(fl(1/a) 448)
//   out = R(fl(q fl(1/s))), q = e4m3(clamp(fl(x s), -448, 448))
//
//   source   nvidia-modelopt 0.47.0, torch/quantization/tensor_quant.py, fp8_eager
#include <algorithm>
#include <cmath>

#include "references/fp8/scaled.hpp"

namespace parity::fp8 {
namespace {

std::vector<TensorSpec> outputs_of(const Case& c) {
  const bool row = c.options.get("granularity", "tensor") == "row";
  return {matrix_spec("fake_quant", Role::Output, c.dtype, rows_of(c), columns_of(c), "K"),
          row_spec("amax", Role::Output, c.dtype, row ? rows_of(c) : 1)};
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses_format(c); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  constexpr Format8 kE4m3{};
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  const Groups groups = groups_of(c, x);
  const std::vector<float> amax = maxima(x, groups, defect);
  std::vector<float> scales;
  for (float a : amax) {
    if (a <= 0x1p-24F && defect != Defect::FloorMissing) a = 1;
    scales.push_back(defect == Defect::ScaleTwice ? 448.0F / a : 1 / a * 448.0F);
  }
  const Groups used = groups_of(c, x, defect);
  std::vector<float> out;
  for (std::int64_t i = 0; i < std::ssize(x.values); ++i) {
    const float s = scales[used.of(i) % scales.size()];
    const float y = x.values[static_cast<std::size_t>(i)] * s;
    const std::uint8_t code =
        cast(kE4m3, std::isnan(y) ? y : std::clamp(y, -448.0F, 448.0F), Overflow::Saturate, defect);
    const float q = value_of(kE4m3, code, defect);
    out.push_back(defect == Defect::DequantMultiplied ? q / s : q * (1 / s));
  }
  Answer answer(outputs_of(c));
  answer.values("fake_quant", out);
  answer.values("amax", amax);
  return answer.take();
}

void import(const StoredCase& stored, ImportedCase& imported) {
  quantize::take_option(stored, "granularity", "granularity", imported.problem.options);
}

const Register chain{ChainDef{
    .name = "fp8_modelopt_fake",
    .what = "s = (1/amax) 448, amax <= 2^-24 as 1; fake quant e4m3(clamp(x s)) (1/s)",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"fp8_modelopt_fake"},
    .faults =
        faults_of({Defect::FloorMissing, Defect::ScaleTwice, Defect::DequantMultiplied,
                   Defect::OtherAxis, Defect::AmaxSigned, Defect::HalfAway, Defect::ImplicitOne}),
    .import = import,
}};

}  // namespace
}  // namespace parity::fp8
