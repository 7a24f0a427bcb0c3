// situ: the gated unit of Kimi K3's experts (arXiv 2607.24653), by rows T and width F.
//   in   gate_up [T,2F]: the gate's half first
//   out  y [T,F] = beta tanh(g / beta) sigmoid(g) * linear_beta tanh(u / linear_beta)
//   options beta (4), linear_beta (25; 0: u as it is)
// Derivatives in blocks/layers.hpp.
#include <algorithm>

#include "harness/text.hpp"
#include "references/blocks/layers.hpp"
#include "references/blocks/stored.hpp"

namespace parity::net {
namespace {

constexpr double kBeta = 4, kLinearBeta = 25;

std::vector<TensorSpec> inputs(const Case& c) {
  const std::int64_t T = c.sizes["T"], F = c.sizes["F"];
  return {{.name = "gate_up", .dtype = c.dtype, .dims = {{"T", T}, {"F", 2 * F}}},
          {.name = "cotangents/y",
           .role = Role::Cotangent,
           .dtype = c.dtype,
           .dims = {{"T", T}, {"F", F}}}};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t T = c.sizes["T"], F = c.sizes["F"];
  return {{.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = {{"T", T}, {"F", F}}},
          {.name = "grads/inputs/gate_up",
           .role = Role::Gradient,
           .dtype = c.dtype,
           .dims = {{"T", T}, {"F", 2 * F}}}};
}

template <class T>
void formulas(Run<T>& run) {
  const Options& o = run.options();
  Unit unit{.beta = o.real("beta", kBeta), .linear_beta = o.real("linear_beta", kLinearBeta)};
  if (run.fault("P-situ-swiglu")) unit.beta = 0;
  if (run.fault("P-situ-no-linear-beta")) unit.linear_beta = 0;
  const Array<T>& both = run.in("gate_up");
  const std::int64_t rows = both.rows(), F = both.width() / 2;
  Array<T> half[2] = {Array<T>({rows, F}), Array<T>({rows, F})};
  for (std::int64_t i = 0; i < both.count(); ++i)
    half[i / F % 2][i / (2 * F) * F + i % F] = both[i];
  const bool swapped = run.fault("P-situ-swapped");
  const Array<T>&gate = half[swapped ? 1 : 0], &up = half[swapped ? 0 : 1];
  run.put("y", gated_unit(run, gate, up, unit));
  if (!run.wants_gradients()) return;
  const GatedUnitGradients<T> d = gated_unit_backward(run, gate, up, run.in("cotangents/y"), unit);
  Array<T> result(both.shape);
  for (std::int64_t i = 0; i < both.count(); ++i) {
    const bool first = i / F % 2 == (swapped ? 1 : 0);
    result[i] = (first ? d.gate : d.up)[i / (2 * F) * F + i % F];
  }
  run.grad("inputs/gate_up", result);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), kFormulas, c, tensors, gradients);
}

Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "situ";
  c.dtype = stored_dtype(stored);
  const std::vector<std::int64_t> shape = stored_shape(stored, "inputs/gate_up");
  c.sizes = Sizes{{"T", shape.at(0), {}}, {"F", shape.at(1) / 2, {}}};
  const double beta = stored_real(stored, "beta", kBeta);
  const double linear_beta = std::max(0.0, stored_real(stored, "linear_beta", kLinearBeta));
  if (beta != kBeta) c.options.set("beta", shortest(beta));
  if (linear_beta != kLinearBeta) c.options.set("linear_beta", shortest(linear_beta));
  import_composite(stored, registry().op_or_throw(c.op), imported);
  return imported;
}

const Register op{OpDef{
    .name = "situ",
    .what = "y = beta tanh(g / beta) sigmoid(g) linear_beta tanh(u / linear_beta)",
    .kind = OpKind::Composite,
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi K3 (arXiv 2607.24653)", "torchtitan models.kimi_k3 SituAndMul"},
    .inputs = inputs,
    .outputs = outputs,
    .reference = reference,
    .base = base,
    .import = import_case,
    .faults = {{"P-situ-swiglu", "", "SwiGLU: the gate is not limited"},
               {"P-situ-no-linear-beta", "", "the up branch is not limited"},
               {"P-situ-swapped", "", "up and gate change places"}},
}};

const Register bound{BoundDef{.op = "situ", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
