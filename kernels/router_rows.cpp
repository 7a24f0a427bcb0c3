// router.rows: f32 throughout; gate and inputs in f32 or bf16.
#include <algorithm>
#include <cmath>

#include "kernels/moe/router.hpp"
#include "kernels/unit/rows.hpp"

namespace parity::moe_kernel {
namespace {

struct Inputs {
  Router rule;
  Matrix x, gate, linear_bias;
  const Matrix* bias() const { return linear_bias.rows > 0 ? &linear_bias : nullptr; }
};

const void* raw(const Launch& launch, std::string_view name) { return launch.in<std::byte>(name); }

Inputs inputs_of(const Launch& launch) {
  Inputs in{.rule = router_of(launch), .x = {}, .gate = {}, .linear_bias = {}};
  const Dtype dtype = launch.problem.dtype;
  in.x = load(dtype, raw(launch, "x"), in.rule.T, in.rule.D);
  in.gate = load(dtype, raw(launch, "params/gate.weight"), in.rule.E, in.rule.D);
  if (const void* bias = raw(launch, "params/gate.bias"))
    in.linear_bias = load(dtype, bias, 1, in.rule.E);
  return in;
}

// Softmax probabilities of one token, and sum_e load_e / T p_e.
float auxiliary_row(const Routed& r, std::int64_t t, std::int64_t T, std::vector<float>& p) {
  const float* z = r.logits.row(t);
  const float most = *std::max_element(z, z + p.size());
  float sum = 0, mean = 0;
  for (std::size_t e = 0; e < p.size(); ++e) sum += p[e] = std::exp(z[e] - most);
  for (std::size_t e = 0; e < p.size(); ++e)
    mean += (p[e] /= sum) * (static_cast<float>(r.load[e]) / static_cast<float>(T));
  return mean;
}

void forward(const Launch& launch) {
  const Inputs in = inputs_of(launch);
  const Router& rule = in.rule;
  const Routed r = route(rule, in.x, in.gate, in.bias());
  std::ranges::copy(r.ids, launch.out<std::int64_t>("ids"));
  std::ranges::copy(r.weights, launch.out<float>("weights"));
  auto* load_E = launch.out<std::int64_t>("tokens_per_expert");
  for (std::size_t e = 0; e < r.load.size(); ++e)
    load_E[e] = rule.fault == "A-MR06" ? 2 * r.load[e] : r.load[e];
  if (auto* margin = launch.out<float>("margin")) std::ranges::copy(r.margin, margin);
  auto* dense = launch.out<float>("weights_by_expert");
  std::fill(dense, dense + rule.T * rule.E, 0.0F);
  for (std::int64_t s = 0; s < rule.T * rule.K; ++s)
    dense[s / rule.K * rule.E + r.ids[static_cast<std::size_t>(s)]] =
        r.weights[static_cast<std::size_t>(s)];
  if (auto* loss = launch.out<float>("aux_loss")) {
    float sum = 0;
    std::vector<float> p(static_cast<std::size_t>(rule.E));
    for (std::int64_t t = 0; t < rule.T; ++t) sum += auxiliary_row(r, t, rule.T, p);
    *loss = static_cast<float>(rule.E) * sum / static_cast<float>(rule.T);
  }
}

void backward(const Launch& launch) {
  const Inputs in = inputs_of(launch);
  const Router& rule = in.rule;
  const Routed r = route(rule, in.x, in.gate, in.bias());
  const auto* g = launch.in<float>("cotangents/weights_by_expert");
  std::vector<float> d_weights(r.weights.size());
  for (std::size_t s = 0; s < d_weights.size(); ++s)
    d_weights[s] = g[static_cast<std::int64_t>(s) / rule.K * rule.E + r.ids[s]];
  Matrix dz = route_backward(rule, r, d_weights);
  if (const auto* cotangent = launch.in<float>("cotangents/aux_loss")) {
    std::vector<float> p(static_cast<std::size_t>(rule.E));
    const float slope = *cotangent * static_cast<float>(rule.E) / static_cast<float>(rule.T);
    for (std::int64_t t = 0; t < rule.T; ++t) {
      const float mean = auxiliary_row(r, t, rule.T, p);
      for (std::size_t e = 0; e < p.size(); ++e)
        dz.row(t)[e] +=
            slope * p[e] * (static_cast<float>(r.load[e]) / static_cast<float>(rule.T) - mean);
    }
  }
  const Dtype dtype = launch.problem.dtype;
  transposed_times(rule.threads, dz, in.x, 0, rule.T, dtype,
                   launch.out<std::byte>("grads/params/gate.weight"));
  store(times(rule.threads, dz, in.gate), dtype, launch.out<std::byte>("grads/inputs/x"));
  if (in.bias() != nullptr) {
    Matrix sum(1, rule.E);
    for (std::int64_t t = 0; t < rule.T; ++t)
      for (std::int64_t e = 0; e < rule.E; ++e) sum.row(0)[e] += dz.row(t)[e];
    store(sum, dtype, launch.out<std::byte>("grads/params/gate.bias"));
  }
}

const Register kernel{KernelDef{
    .op = "router",
    .name = "router.rows",
    .what = "f32, logits as one product, tokens one by one; ties to the lowest index",
    .contract = unit_kernel::kF32Contract,
    .refuses = router_refusal,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-MR08", "", "weights are gathered from the scores with the bias"},
               {"A-MR06", "", "loads of a warm-up pass stay in the counters"},
               {"P-router-no-bias", "", "the correction bias is ignored"},
               {"P-router-no-renorm", "", "weights are not renormalised"},
               {"P-router-groups-zero", "", "groups that go are filled with 0, not -inf"},
               {"P-router-chosen-only", "", "softmax backward without its sum over experts"}},
}};

}  // namespace
}  // namespace parity::moe_kernel
