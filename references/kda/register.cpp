// The op kda: Kimi Delta Attention (kda.md), forward and backward.
#include <algorithm>

#include "references/kda/base.hpp"
#include "references/kda/faults.hpp"
#include "references/kda/import.hpp"
#include "references/kda/invariants.hpp"
#include "references/kda/recurrence.hpp"

namespace parity::kda {
namespace {

const TensorSpec& spec_of(const std::vector<TensorSpec>& specs, std::string_view name) {
  return *std::ranges::find(specs, name, &TensorSpec::name);
}

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  const Setup s = setup_of(c);
  const Inputs in = widen_inputs(s, tensors);
  const Activated a = activate(s, in);
  const std::vector<TensorSpec> specs = output_specs(c);
  Expected expected;
  const auto add = [&](std::string_view name, Graded x, bool state = false) {
    if (std::ranges::find(specs, name, &TensorSpec::name) == specs.end()) return;
    if (state && s.v_first) {
      x.value = swap_state(s, x.value, true);
      x.scale = swap_state(s, x.scale, true);
    }
    expected.tensors.push_back(
        {.spec = spec_of(specs, name), .value = std::move(x.value), .scale = std::move(x.scale)});
  };
  const auto tap = [](const Real& value, const Real& scale) {
    Graded x;
    x.value = value;
    x.scale = scale;
    return x;
  };
  Outputs out = forward(s, in, a);
  add("o", std::move(out.o));
  add("final_state", std::move(out.final_state), true);
  add("g", tap(a.g, a.g_error));
  add("beta", tap(a.beta, a.beta_scale));
  if (!gradients || !s.gradients) return expected;
  Gradients d = backward(s, in, a);
  add("grads/q", std::move(d.q));
  add("grads/k", std::move(d.k));
  add("grads/v", std::move(d.v));
  add("grads/g", std::move(d.g));
  add("grads/g_raw", std::move(d.g_raw));
  add("grads/A_log", std::move(d.A_log));
  add("grads/dt_bias", std::move(d.dt_bias));
  add("grads/beta", std::move(d.beta));
  add("grads/beta_logit", std::move(d.beta_logit));
  add("grads/initial_state", std::move(d.h0), true);
  return expected;
}

const Register op{OpDef{
    .name = "kda",
    .what = "S = (I - beta k k^T) diag(exp g) S + beta k v^T;  o = scale S^T q",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"Kimi Linear (arXiv 2510.26692)", "flash-linear-attention fla/ops/kda"},
    .inputs = input_specs,
    .outputs = output_specs,
    .derive = derive,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = contract_of,
    .import = import_case,
    .trivial = wrong_answers,
    .faults = fault_list(),
    .invariants = invariant_list(),
}};

}  // namespace
}  // namespace parity::kda
