// torchao's QAT of int8 activations (asymmetric, per token) and int4 weights (symmetric, groups of
// 32): what training prepares and what conversion stores must be the same, bit for bit.
//   in   x_MK, w_NK (cotangents/prepare_y with linear=1)
//   out  fake quantised x and w with their scales; the converted codes, scales and values;
//   linear=1: y = x w^T both ways, and grads/x, grads/w straight through
// scales in the data's dtype; group=32.
#include <cmath>

#include "harness/failure.hpp"
#include "references/integer/tensors.hpp"
#include "references/linear/product.hpp"

namespace parity::integer {
namespace {

struct Extents {
  std::int64_t M = 0, K = 0, N = 0, group = 32;
};
Extents extents(const Case& c) {
  return {c.sizes["M"], c.sizes["K"], c.sizes["N"], c.options.integer("group", 32)};
}

Affine of_tokens(const Case& c, Defect defect) {
  return {.mapping = Mapping::Asymmetric, .data = c.dtype, .scale = c.dtype, .defect = defect};
}
Affine of_weight(const Case& c, Defect defect) {
  return {.qmin = -8,
          .qmax = 7,
          .data = c.dtype,
          .scale = c.dtype,
          .block_columns = extents(c).group,
          .defect = defect};
}

TensorSpec named(std::string_view name, Role role, Dtype dtype, const char* rows, std::int64_t R,
                 const char* columns, std::int64_t C) {
  return {
      .name = std::string(name), .role = role, .dtype = dtype, .dims = {{rows, R}, {columns, C}}};
}

std::vector<TensorSpec> inputs(const Case& c) {
  const auto [M, K, N, group] = extents(c);
  std::vector<TensorSpec> specs = {named("x", Role::Input, c.dtype, "M", M, "K", K),
                                   named("w", Role::Input, c.dtype, "N", N, "K", K)};
  if (c.options.flag("linear"))
    specs.push_back(named("cotangents/prepare_y", Role::Cotangent, c.dtype, "M", M, "N", N));
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const auto [M, K, N, group] = extents(c);
  std::vector<TensorSpec> specs = {
      named("x_fake_quant", Role::Output, c.dtype, "M", M, "K", K),
      group_spec("x_scale", Role::Scales, c.dtype, M),
      group_spec("x_zero_point", Role::Ids, Dtype::I32, M),
      named("x_convert_dequant", Role::Output, c.dtype, "M", M, "K", K),
      named("w_fake_quant", Role::Output, c.dtype, "N", N, "K", K),
      group_spec("w_scale", Role::Scales, c.dtype, N * (K / group)),
      named("w_codes", Role::Codes, Dtype::I8, "N", N, "K", K),
      group_spec("w_convert_scale", Role::Scales, c.dtype, N * (K / group)),
      named("w_convert_dequant", Role::Output, c.dtype, "N", N, "K", K),
      group_spec("prepare_equals_convert", Role::Ids, Dtype::I32, 1)};
  if (c.options.flag("linear")) {
    specs.push_back(named("prepare_y", Role::Output, c.dtype, "M", M, "N", N));
    specs.push_back(named("convert_y", Role::Output, c.dtype, "M", M, "N", N));
    specs.push_back(named("grads/x", Role::Gradient, c.dtype, "M", M, "K", K));
    specs.push_back(named("grads/w", Role::Gradient, c.dtype, "N", N, "K", K));
  }
  return specs;
}

linear::Dense dense(const Matrix& m, const std::vector<float>& values) {
  return {.rows = m.rows, .columns = m.columns, .values = {values.begin(), values.end()}};
}

// The product as a CPU gives it: rounded once from its exact value; its order is the source's own.
ExpectedTensor product(const TensorSpec& spec, const linear::Product& p) {
  ExpectedTensor t{.spec = spec, .value = p.value.values, .scale = p.size};
  for (double& v : t.value) v = round_to(spec.dtype, v);
  return t;
}

// dy w or dy^T x, through the fake quantiser of the other operand.
ExpectedTensor gradient(const TensorSpec& spec, const linear::Product& p, const Affine& a,
                        const Matrix& m, const Integers& q) {
  ExpectedTensor t{.spec = spec, .scale = p.size};
  std::vector<float> upstream;
  for (const double v : p.value.values)
    upstream.push_back(static_cast<float>(round_to(spec.dtype, v)));
  for (const float v : straight_through(a, m, q, upstream))
    t.value.push_back(static_cast<double>(v));
  for (std::size_t i = 0; i < t.scale.size(); ++i)
    if (q.inside[i] == 0) t.scale[i] = 0;  // masked: zero, whatever the sum
  return t;
}

Expected quantize(const Case& c, const Tensors& tensors, std::string_view fault) {
  const auto [M, K, N, group] = extents(c);
  if (group <= 0 || K % group != 0) return {.refused = "rows are no multiple of the group"};
  const Defect defect = defect_of(fault);
  const bool differs = defect == Defect::PathDiffers;
  const Matrix x = quantize::matrix_of(tensors.at("x")), w = quantize::matrix_of(tensors.at("w"));
  const Affine tokens = of_tokens(c, differs ? Defect::None : defect);
  const Affine weight = of_weight(c, differs ? Defect::None : defect);
  Affine converted = of_weight(c, differs ? Defect::FullRange : defect);
  const Integers qx = quantise(tokens, x, choose_all(tokens, x));
  const Integers qw = quantise(weight, w, choose_all(weight, w));
  const Integers stored = quantise(converted, w, choose_all(converted, w));
  const auto equal = static_cast<double>(qw.values == stored.values);
  Expected expected;
  const auto add = [&](ExpectedTensor t) { expected.tensors.push_back(std::move(t)); };
  linear::Product y, dx, dw;
  if (c.options.flag("linear")) {
    const linear::Dense a = dense(x, qx.values), b = dense(w, qw.values);
    const linear::Dense dy{
        .rows = M, .columns = N, .values = tensors.at("cotangents/prepare_y").widened()};
    y = linear::times_transposed(a, b);
    dx = linear::times_transposed(dy, linear::transposed(b));
    dw = linear::times_transposed(linear::transposed(dy), linear::transposed(a));
  }
  for (const TensorSpec& spec : outputs(c)) {
    if (spec.name == "grads/x") {
      add(gradient(spec, dx, tokens, x, qx));
    } else if (spec.name == "grads/w") {
      add(gradient(spec, dw, weight, w, qw));
    } else if (spec.name.ends_with("_y")) {
      add(product(spec, y));
    } else if (spec.name == "prepare_equals_convert") {
      add(chains::exact(spec, std::vector<double>{equal}));
    } else if (spec.name.starts_with("x_")) {
      add(affine_tensor(spec, qx));
    } else {
      add(affine_tensor(
          spec, spec.name == "w_codes" || spec.name.starts_with("w_convert") ? stored : qw));
    }
  }
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Case& c = imported.problem;
  const auto& x = imported.inputs.at("x").spec.dims;
  const auto& w = imported.inputs.at("w").spec.dims;
  if (x.size() != 2 || w.size() != 2 || x[1].extent != w[1].extent)
    throw GoldenError(stored.file + ": " + stored.name + ": x and w are no matrices of equal rows");
  c.sizes.set({.name = "M", .extent = x[0].extent});
  c.sizes.set({.name = "K", .extent = x[1].extent});
  c.sizes.set({.name = "N", .extent = w[0].extent});
  if (const std::string g = chains::attribute(stored, "group_size"); !g.empty())
    c.options.set("group", g);
  if (Tensor* dy = imported.inputs.find("cotangents/fake_quant")) {
    dy->spec.name = "cotangents/prepare_y";
    c.options.set("linear", "1");
  }
}

const Register chain{ChainDef{
    .name = "int_8da4w",
    .what = "int8 activations per token, int4 weights by groups: prepare equals convert",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"int_torchao_8da4w"},
    .faults = faults_of({Defect::Divided, Defect::HalfAway, Defect::WideScale, Defect::ZeroExcluded,
                         Defect::NeighbourGroup, Defect::PathDiffers}),
    .inputs = inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::integer
