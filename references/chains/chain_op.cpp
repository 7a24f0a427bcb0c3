#include "references/chains/chain_op.hpp"

#include <algorithm>
#include <cmath>

#include "harness/failure.hpp"

namespace parity::chains {

const ChainDef* chain_of(const Case& c) { return registry().chain(c.options.get("chain", "")); }

std::string refuses(const Case& c) {
  const ChainDef* chain = chain_of(c);
  if (chain != nullptr && registry().op_of(*chain) == registry().op(c.op)) return "";
  std::string known;
  for (const ChainDef& def : registry().chains)
    if (registry().op_of(def) == registry().op(c.op))
      known += (known.empty() ? "" : ", ") + std::string(def.name);
  return "no chain '" + c.options.get("chain", "") + "' of " + c.op + " (chain=" + known + ")";
}

std::vector<TensorSpec> inputs(const Case& c) {
  const ChainDef* chain = chain_of(c);
  return chain == nullptr || chain->inputs == nullptr ? std::vector<TensorSpec>{}
                                                      : chain->inputs(c);
}

std::vector<TensorSpec> outputs(const Case& c) {
  const ChainDef* chain = chain_of(c);
  return chain == nullptr ? std::vector<TensorSpec>{} : chain->outputs(c);
}

namespace {

Expected evaluate(const Case& c, const Tensors& tensors, bool gradients, std::string_view fault) {
  const ChainDef* chain = chain_of(c);
  if (chain == nullptr) return {.refused = refuses(c)};
  Expected expected = chain->quantize(c, tensors, fault);
  if (!gradients)
    std::erase_if(expected.tensors,
                  [](const ExpectedTensor& t) { return t.spec.role == Role::Gradient; });
  return expected;
}

}  // namespace

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return evaluate(c, tensors, gradients, "");
}

Evaluation base(const BaseRequest& request) {
  Evaluation evaluation;
  for (ExpectedTensor& t :
       evaluate(request.problem, request.inputs, request.gradients, request.fault).tensors)
    evaluation.push_back({std::move(t.spec.name), std::move(t.value), std::move(t.bits)});
  return evaluation;
}

Contract exact_contract(const Case& c, const std::map<std::string, std::string>&) {
  return {.name = "exact_chain",
          .dtypes = {c.dtype},
          .fidelity = Fidelity::Twin,
          .invariant = {"threads"}};
}

Bound exact_bound(const Case&, const Contract&, const TensorSpec&) {
  return {.kind = BoundKind::Exact,
          .strict_signed_zero = true,
          .why = "a chain fixes every operation and its order, so results are equal bit for bit"};
}

std::string attribute(const StoredCase& stored, const std::string& name) {
  const auto it = stored.attributes.find(name);
  return it == stored.attributes.end() ? "" : it->second;
}

bool holds(const StoredCase& stored, std::string_view path) {
  return std::ranges::find(stored.paths, path) != stored.paths.end();
}

ImportedCase import_case(const StoredCase& stored, std::string_view op, std::string_view answer) {
  ImportedCase imported;
  const ChainDef* chain = registry().chain_of_group(stored.group);
  if (chain == nullptr) {
    imported.unsupported = "no chain here explains the group '" + stored.group + "'";
    return imported;
  }
  Case& c = imported.problem;
  c.op = op;
  c.fill = stored.name;
  c.options.set("chain", chain->name);
  c.check = Check::Golden;
  for (const std::string& path : stored.paths) {
    if (path.starts_with("outputs/")) imported.results[path.substr(8)] = path;
    if (path.starts_with("grads/")) imported.results[path] = path;
    if (!path.starts_with("inputs/")) continue;
    Tensor t = stored.read(path);
    t.spec.name = path.substr(7);
    t.spec.role = Role::Input;
    if (t.spec.name == "dy") {
      t.spec.name = "cotangents/" + std::string(answer);
      t.spec.role = Role::Cotangent;
    }
    imported.inputs.add(std::move(t));
  }
  if (imported.inputs.empty())
    throw GoldenError(stored.file + ": " + stored.name + " has no inputs");
  const TensorSpec& first = imported.inputs.list().front().spec;
  c.dtype = first.dtype;
  if (chain->import != nullptr) chain->import(stored, imported);
  return imported;
}

ExpectedTensor exact(TensorSpec spec, std::vector<double> values,
                     std::vector<std::uint8_t> ignore) {
  ExpectedTensor t{.spec = std::move(spec), .ignore = std::move(ignore)};
  for (double& v : values) v = round_to(t.spec.dtype, v);
  t.bits = make_tensor(t.spec, values).bytes;
  t.scale.reserve(values.size());
  for (const double v : values) t.scale.push_back(std::fabs(v));
  t.value = std::move(values);
  return t;
}

ExpectedTensor exact(TensorSpec spec, std::span<const float> values,
                     std::vector<std::uint8_t> ignore) {
  return exact(std::move(spec), std::vector<double>(values.begin(), values.end()),
               std::move(ignore));
}

}  // namespace parity::chains
