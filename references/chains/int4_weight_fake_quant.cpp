// torchao's fake quantiser of int4 weights (references/integer/int4_weight.hpp): acts=bf16|fp8,
// group=32. Sums over a group or a row ascend in fp64; open_sums=1 (stored cases): their order is
// the source's own, and the gradient has a bound.
#include <cmath>

#include "harness/failure.hpp"
#include "references/fake_quantize/bounds.hpp"
#include "references/integer/int4_weight.hpp"
#include "references/integer/tensors.hpp"

namespace parity::integer {
namespace {

std::int64_t group_size(const Case& c) { return c.options.integer("group", 32); }

std::vector<TensorSpec> inputs(const Case& c) {
  return {
      matrix_spec("x", Role::Input, c.dtype, rows_of(c), columns_of(c)),
      matrix_spec("cotangents/fake_quant", Role::Cotangent, c.dtype, rows_of(c), columns_of(c))};
}

std::vector<TensorSpec> outputs(const Case& c) {
  return {matrix_spec("fake_quant", Role::Output, c.dtype, rows_of(c), columns_of(c)),
          matrix_spec("grads/x", Role::Gradient, c.dtype, rows_of(c), columns_of(c))};
}

Expected quantize(const Case& c, const Tensors& tensors, std::string_view fault) {
  const std::int64_t group = group_size(c);
  if (group <= 0 || columns_of(c) % group != 0)
    return {.refused = "rows are no multiple of the group"};
  const Tensor* cotangent = tensors.find("cotangents/fake_quant");
  const WeightFakeQuant q =
      fake_quantise_weight({.data = c.dtype,
                            .group = group,
                            .activations_fp8 = c.options.get("acts", "bf16") == "fp8",
                            .defect = defect_of(fault)},
                           quantize::matrix_of(tensors.at("x")),
                           cotangent == nullptr ? std::vector<float>{} : floats_of(*cotangent));
  const std::vector<TensorSpec> specs = outputs(c);
  Expected expected;
  expected.tensors.push_back(chains::exact(specs[0], q.values));
  if (q.gradient.empty()) return expected;
  if (!c.options.flag("open_sums")) {
    expected.tensors.push_back(chains::exact(specs[1], q.gradient));
    return expected;
  }
  ExpectedTensor gradient{.spec = specs[1]};
  for (std::size_t i = 0; i < q.gradient.size(); ++i) {
    gradient.value.push_back(round_to(c.dtype, q.gradient[i]));
    gradient.scale.push_back(q.allowance[i] / fake_quantize::kUnit);
  }
  expected.tensors.push_back(std::move(gradient));
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Case& c = imported.problem;
  const auto& dims = imported.inputs.at("x").spec.dims;
  if (dims.size() != 2) throw GoldenError(stored.file + ": " + stored.name + ": x is no matrix");
  c.sizes.set({.name = "M", .extent = dims[0].extent});
  c.sizes.set({.name = "K", .extent = dims[1].extent});
  const std::string acts = chains::attribute(stored, "activation_dtype");
  c.options.set("acts", acts.ends_with("fp8") ? "fp8" : "bf16");
  c.options.set("open_sums", "1");
  if (const std::string g = chains::attribute(stored, "group_size"); !g.empty())
    c.options.set("group", g);
}

const Register chain{ChainDef{
    .name = "int4_weight_fake_quant",
    .what = "int4 weight groups by range (bf16 activations) or of float8 values; scales attached",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"int_torchao_int4_weight_fake_quant"},
    .faults = faults_of({Defect::Divided, Defect::HalfAway, Defect::Truncated, Defect::FullRange,
                         Defect::ZeroExcluded, Defect::EpsMissing, Defect::MaskMissing,
                         Defect::MaskExclusive, Defect::GradientPlain, Defect::GradientZero,
                         Defect::ScaleDetached}),
    .inputs = inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::integer
