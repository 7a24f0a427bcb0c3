// quantized_linear: y = x w^T with its three products by a recipe of low-precision training.
//   in   x [M,K], params/weight [N,K], params/bias [N] with bias=1, rbits and rbits_t with sr=1,
//        cotangents/y
//   out  y, grads/x, grads/params/weight, grads/params/bias; with taps=1 codes and scales of every
//        operand
//   recipe=NAME (recipe.hpp); out=f32|bf16|e4m3; stated=1: bit for bit, in the order that the
//   source states; against=stored (the kernel's own error) or source (that of the recipe);
//   tp=row|column, ranks=R
#include "harness/failure.hpp"
#include "references/chains/chain_op.hpp"
#include "references/linear/evaluate.hpp"

namespace parity::linear {
namespace {

Contract contract(const Case& c, const std::map<std::string, std::string>&) {
  return {.name = "f32_sum", .dtypes = {c.dtype}, .invariant = {"threads"}};
}

// Options of the recipe by the group and the attributes of a stored case.
void options_of(const StoredCase& stored, ImportedCase& imported) {
  using chains::attribute;
  Options& o = imported.problem.options;
  const std::string& group = stored.group;
  if (group == "nvfp4_te_linear") {
    o = {{"recipe", "nvfp4_te"}, {"stated", "1"}};
    if (attribute(stored, "with_rht") == "1") o.set("rht", "1");
    o.set("weight_tile", attribute(stored, "weight_tile") == "1x16" ? "1x16" : "16x16");
    o.set("out", name(parse_dtype(attribute(stored, "out_dtype"))));
  } else if (group == "nvfp4_torchao_qat_linear") {
    o = {{"recipe", "nvfp4_qat"}};
    if (!chains::holds(stored, "inputs/w")) o.set("cpu_forward", "1");
  } else if (group == "mx_torchao_qat_linear") {
    o = {{"recipe", "mx_qat"}};
    const std::string config = attribute(stored, "config");
    for (const char* elem : {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2"})
      if (config.find("dtype=" + std::string(elem)) != std::string::npos) o.set("elem", elem);
    for (const auto& [theirs, ours] : {std::pair{"FLOOR", "floor"}, std::pair{"=CEIL", "ceil"},
                                       std::pair{"EVEN", "even"}, std::pair{"RCEIL", "rceil"}})
      if (config.find(theirs) != std::string::npos) o.set("mode", ours);
  } else if (group == "fp8_torchao_linear") {
    o = {{"recipe", "fp8"}, {"scheme", attribute(stored, "recipe")}};
  } else if (group == "int_torchao_int8_training_linear") {
    o = {{"recipe", "int8_training"}};
  } else {
    imported.unsupported = "no recipe here explains the group '" + group + "'";
    return;
  }
  const std::string chain(recipe_of(imported.problem)->chain);
  const ChainDef* def = registry().chain(chain);
  if (def == nullptr)
    imported.unsupported = "its operands' chain '" + chain + "' is not registered here";
}

std::string ours(const std::string& stored_name) {
  if (stored_name == "w") return "params/weight";
  if (stored_name == "b") return "params/bias";
  return stored_name == "dy" ? "cotangents/y" : stored_name;
}

ImportedCase import(const StoredCase& stored) {
  ImportedCase imported;
  options_of(stored, imported);
  if (!imported.unsupported.empty()) return imported;
  Case& c = imported.problem;
  c.op = "quantized_linear";
  c.check = Check::Golden;
  for (const std::string& path : stored.paths) {
    if (path.starts_with("inputs/")) {
      Tensor t = stored.read(path);
      t.spec.name = ours(path.substr(7));
      t.spec.role = t.spec.name == "cotangents/y" ? Role::Cotangent : Role::Input;
      imported.inputs.add(std::move(t));
    } else if (path == "outputs/y") {
      imported.results["y"] = path;
    } else if (path.starts_with("outputs/")) {
      c.options.set("taps", "1");
      imported.results["tap/" + path.substr(8)] = path;
    } else if (path.starts_with("grads/")) {
      imported.results["grads/" + ours(path.substr(6))] = path;
    }
  }
  const Tensor& x = imported.inputs.at("x");
  const Tensor* w = imported.inputs.find("params/weight");
  const auto extent = [&](const Tensor& t, std::size_t axis) {
    if (t.spec.dims.size() != 2)
      throw GoldenError(stored.file + ": " + stored.name + ": '" + t.spec.name + "' is no matrix");
    return t.spec.dims[axis].extent;
  };
  c.dtype = x.spec.dtype;
  c.sizes.set({.name = "M", .extent = extent(x, 0)});
  c.sizes.set({.name = "N", .extent = w == nullptr ? 1 : extent(*w, 0)});
  c.sizes.set({.name = "K", .extent = extent(x, 1)});
  if (w != nullptr && extent(*w, 1) != c.sizes["K"])
    throw GoldenError(stored.file + ": " + stored.name + ": rows of x and w differ in length");
  if (imported.inputs.find("params/bias") != nullptr) c.options.set("bias", "1");
  return imported;
}

const Register op{OpDef{
    .name = "quantized_linear",
    .what = "y = x w^T, dx = dy w, dw = dy^T x of quantised operands",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"https://github.com/pytorch/ao", "https://github.com/NVIDIA/TransformerEngine",
                "arXiv 2509.25149"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = contract,
    .import = import,
    .faults = faults(),
}};

const Register op_bound{BoundDef{.op = "quantized_linear", .bound = bound}};

}  // namespace
}  // namespace parity::linear
