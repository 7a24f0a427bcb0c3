// torchao's inference and QAT float8: e4m3, one scale a row or a tensor, formed in the input dtype.
//
//   a     = amax, perhaps max(a, R(lb)) (option lb)      scale = R(a / 448), kept as f32
//   code  = e4m3(clamp(fl(x / scale), -448, 448))        fake_quant = R(fl(code scale))
//
// grad=1: grads/x of Float8FakeQuantizer from cotangents/fake_quant. It is no plain
// straight-through estimator: the cotangent of the fp8 tensor is cast to fp8 itself, and the scale
// is not detached. With m = [-448 <= fl(x/s) <= 448], c = e4m3(fl(g s)) unsaturated:
//
//   dx = R(fl(m c / s)) + [x has the amax] sign(x) / ties ds / 448
//   ds = sum(g code) - sum(m c x / s^2)           in any order: known to a bound at the amax alone
//
//   source   torchao 0.18.0, quantization/qat/fake_quantizer.py, quant_primitives.py
#include <algorithm>
#include <cmath>

#include "references/fp8/scaled.hpp"

namespace parity::fp8 {
namespace {

constexpr const char* kCotangent = "cotangents/fake_quant";

std::vector<TensorSpec> inputs_of(const Case& c) {
  std::vector<TensorSpec> specs = {
      matrix_spec("x", Role::Input, c.dtype, rows_of(c), columns_of(c), "K")};
  if (c.options.flag("grad"))
    specs.push_back(
        matrix_spec(kCotangent, Role::Cotangent, c.dtype, rows_of(c), columns_of(c), "K"));
  return specs;
}

std::vector<TensorSpec> outputs_of(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  const bool row = c.options.get("granularity", "tensor") == "row";
  std::vector<TensorSpec> specs = {
      matrix_spec("codes", Role::Codes, Dtype::E4M3, rows, columns, "K"),
      row_spec("scale", Role::Output, Dtype::F32, row ? rows : 1),
      matrix_spec("fake_quant", Role::Output, c.dtype, rows, columns, "K")};
  if (c.options.flag("grad"))
    specs.push_back(matrix_spec("grads/x", Role::Gradient, c.dtype, rows, columns, "K"));
  return specs;
}

// The forward, element by element.
struct Forward {
  Groups groups = {};
  std::vector<float> amax, least, scale;  // per group; least: the amax that the scale saw
  std::vector<float> y, q, out;           // x/s before the clamp, decoded code, fake_quant
  std::vector<std::uint8_t> codes;
};

Forward forward(const Case& c, const Matrix& x, Defect defect) {
  Forward f;
  f.groups = groups_of(c, x);
  const std::string lb = c.options.get("lb", "");
  f.amax = maxima(x, f.groups, defect);
  for (const float amax : f.amax) {
    const float least =
        lb.empty() || defect == Defect::FloorMissing
            ? amax
            : quantize::max_nan(amax,
                                static_cast<float>(round_to(c.dtype, c.options.real("lb", 0))));
    const float scale = least / 448.0F;
    f.least.push_back(least);
    f.scale.push_back(defect == Defect::ScaleWide ? scale : rounded(c.dtype, scale));
  }
  const Groups used = groups_of(c, x, defect);
  for (std::int64_t i = 0; i < std::ssize(x.values); ++i) {
    const float s = f.scale[used.of(i) % f.scale.size()];
    const float v = x.values[static_cast<std::size_t>(i)];
    f.y.push_back(defect == Defect::DequantMultiplied ? v * (1 / s) : v / s);
    const float y = f.y.back();
    f.codes.push_back(
        cast({}, std::isnan(y) ? y : std::clamp(y, -448.0F, 448.0F), Overflow::Saturate, defect));
    f.q.push_back(value_of({}, f.codes.back(), defect));
    f.out.push_back(f.q.back() * s);
  }
  return f;
}

struct Gradient {
  std::vector<double> value, magnitude;  // magnitude 0 where the gradient is exact
};

Gradient backward(const Case& c, const Matrix& x, const Matrix& g, const Forward& f,
                  Defect defect) {
  const std::size_t groups = f.scale.size();
  std::vector<double> ds(groups, 0), size(groups, 0), ties(groups, 0);
  std::vector<float> direct;
  for (std::int64_t flat = 0; flat < std::ssize(x.values); ++flat) {
    const auto i = static_cast<std::size_t>(flat);
    const std::size_t group = f.groups.of(flat);
    const float s = f.scale[group];
    const float mask = std::fabs(f.y[i]) <= 448.0F ? 1.0F : 0.0F;
    const float wide = g.values[i] * s;
    const float cotangent =
        defect == Defect::GradientStraight
            ? wide
            : static_cast<float>(decode(Dtype::E4M3, cast({}, wide, Overflow::Infinity, defect)));
    const float masked = mask * cotangent;
    direct.push_back(rounded(c.dtype, masked / s));
    const double of_product = static_cast<double>(g.values[i] * f.q[i]);
    const double of_quotient = static_cast<double>(masked * (f.y[i] / s));
    ds[group] += of_product - of_quotient;
    size[group] += std::fabs(of_product) + std::fabs(of_quotient);
    ties[group] += std::fabs(x.values[i]) == f.amax[group] ? 1 : 0;
  }
  Gradient out;
  for (std::int64_t flat = 0; flat < std::ssize(x.values); ++flat) {
    const auto i = static_cast<std::size_t>(flat);
    const std::size_t group = f.groups.of(flat);
    const bool is_max = std::fabs(x.values[i]) == f.amax[group];
    const bool floored = f.least[group] > f.amax[group];  // the floor cuts the gradient
    const float total = rounded(c.dtype, static_cast<float>(floored ? 0.0 : ds[group]));
    const float share = rounded(c.dtype, rounded(c.dtype, total / 448.0F) * (is_max ? 1.0F : 0.0F));
    const float sign = x.values[i] > 0 ? 1.0F : x.values[i] < 0 ? -1.0F : 0.0F;
    const float each = rounded(c.dtype, share / static_cast<float>(std::max(ties[group], 1.0)));
    float dx = direct[i];
    if (defect != Defect::GradientDetached) dx = rounded(c.dtype, dx + each * sign);
    out.value.push_back(static_cast<double>(dx));
    const double summed = size[group] / 448 / std::max(ties[group], 1.0);
    const double magnitude = std::fabs(static_cast<double>(direct[i])) + summed;
    out.magnitude.push_back(is_max && !floored && std::isfinite(magnitude) ? magnitude : 0.0);
  }
  return out;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses_format(c); !why.empty()) return {.refused = why};
  if (c.options.get("granularity", "tensor") == "column")
    return {.refused = "scales along rows or of the tensor"};
  const Defect defect = defect_of(fault);
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  const Forward f = forward(c, x, defect);
  Answer answer(outputs_of(c));
  answer.codes("codes", f.codes);
  answer.values("scale", f.scale);
  answer.values("fake_quant", f.out);
  if (c.options.flag("grad")) {
    const Gradient gradient = backward(c, x, quantize::matrix_of(inputs.at(kCotangent)), f, defect);
    answer.estimates("grads/x", gradient.value, gradient.magnitude);
  }
  return answer.take();
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Options& options = imported.problem.options;
  quantize::take_option(stored, "granularity", "granularity", options);
  if (const std::string lb = quantize::attribute_of(stored, "hp_value_lb"); lb != "none")
    quantize::take_option(stored, "hp_value_lb", "lb", options);
  if (std::ranges::find(stored.paths, "grads/x") == stored.paths.end()) return;
  options.set("grad", "1");
  imported.results["grads/x"] = "grads/x";
  const auto& x = imported.inputs.at("x");
  TensorSpec spec = x.spec;  // the stored gradient is that of a cotangent of ones
  spec.name = kCotangent;
  spec.role = Role::Cotangent;
  const std::vector<double> ones(static_cast<std::size_t>(x.elements()), 1.0);
  imported.inputs.add(make_tensor(std::move(spec), ones));
}

const Register chain{ChainDef{
    .name = "fp8_torchao_affine",
    .what = "scale = R(amax / 448) in the input dtype; code = e4m3(clamp(x / scale))",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"fp8_torchao_affine"},
    .faults = faults_of({Defect::FloorMissing, Defect::ScaleWide, Defect::DequantMultiplied,
                         Defect::OtherAxis, Defect::GradientStraight, Defect::GradientDetached,
                         Defect::AmaxDropsNan, Defect::AmaxSigned, Defect::HalfAway,
                         Defect::ImplicitOne}),
    .inputs = inputs_of,
    .import = import,
}};

}  // namespace
}  // namespace parity::fp8
