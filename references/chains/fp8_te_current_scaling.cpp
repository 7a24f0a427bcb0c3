// Transformer Engine's current scaling (python reference): one scale a tensor, e4m3 or e5m2.
//
//   amax  = max(amax, eps)                  scale = fl(max / amax), 1 where amax is 0
//   scale = inf -> the largest finite number of the input dtype; pow2=1: 2^floor(log2), 0.5 of a
//   NaN code  = cast(fl(x scale)), neither clamped nor saturated      scale_inv = fl(1 / scale)
//
//   source   transformer_engine 2.20.2, pytorch/custom_recipes/reference_current_scaling.py
#include <cmath>

#include "references/fp8/scaled.hpp"
#include "references/mx/elements.hpp"

namespace parity::fp8 {
namespace {

std::vector<TensorSpec> outputs_of(const Case& c) {
  const Dtype dtype = format_of(c).dtype;
  std::vector<TensorSpec> specs = {
      matrix_spec("codes", Role::Codes, dtype, rows_of(c), columns_of(c), "K"),
      row_spec("scale_inv", Role::Output, Dtype::F32, 1)};
  if (c.options.flag("transpose"))
    specs.push_back(matrix_spec("codes_t", Role::Codes, dtype, columns_of(c), rows_of(c), "K"));
  return specs;
}

float power_below(float scale) {
  if (std::isnan(scale)) return 0.5F;  // frexp gives exponent 0
  if (scale == 0) return 0;
  return std::ldexp(1.0F, std::ilogb(scale));
}

float scale_of(const Case& c, const Format8& f, float amax, Defect defect) {
  const auto eps = static_cast<float>(c.options.real("eps", 0));
  if (amax < eps && defect != Defect::FloorNarrow) amax = eps;
  if (amax == 0 && defect != Defect::FloorMissing) return 1;
  float scale = (defect == Defect::MaxOfE4m3 ? 448.0F : f.max) / amax;
  if (defect == Defect::ScaleTwice) scale = 1 / (amax / f.max);
  if (std::isinf(scale)) scale = static_cast<float>(format(c.dtype).max_finite);
  if (c.options.flag("pow2") && defect != Defect::PowerMissing) scale = power_below(scale);
  return scale;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses_format(c); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  const Format8 f = format_of(c);
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  const float amax = maxima(x, groups_of(c, x), defect).front();
  const float scale = scale_of(c, f, amax, defect);
  const float inverse = 1 / scale;
  const auto codes_of = [&](const Matrix& m) {
    std::vector<std::uint8_t> codes;
    for (const float v : m.values) codes.push_back(cast(f, v * scale, Overflow::Infinity, defect));
    return codes;
  };
  Answer answer(outputs_of(c));
  answer.codes("codes", codes_of(x));
  if (answer.asks_for("codes_t"))
    answer.codes("codes_t", codes_of(defect == Defect::OtherAxis ? x : transposed(x)));
  answer.values("scale_inv", std::vector{inverse});
  return answer.take();
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Options& options = imported.problem.options;
  options.set("elem", element_name(quantize::attribute_of(stored, "float8_dtype")));
  if (quantize::flag_of(stored, "pow_2_scales")) options.set("pow2", "1");
  quantize::take_option(stored, "eps", "eps", options);
}

const Register chain{ChainDef{
    .name = "fp8_te_current_scaling",
    .what =
        "scale = max / max(amax, eps), perhaps a power of two; code = cast(x scale) unsaturated",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"fp8_te_current_scaling"},
    .faults = faults_of({Defect::FloorMissing, Defect::FloorNarrow, Defect::ScaleTwice,
                         Defect::MaxOfE4m3, Defect::PowerMissing, Defect::OtherAxis,
                         Defect::CastSaturates, Defect::AmaxDropsNan, Defect::AmaxSigned}),
    .import = import,
}};

}  // namespace
}  // namespace parity::fp8
