#include "references/model/moe.hpp"

#include <ATen/ATen.h>
#include <cmath>
#include <limits>

namespace parity::model {
namespace {

using at::Tensor;

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

// Scores whose groups that go are -inf, and the margin of that choice.
std::pair<Tensor, Tensor> limited(const Tensor& scores, const RouterConfig& c) {
  const std::int64_t T = scores.size(0), size = scores.size(1) / c.groups;
  const Tensor best =
      std::get<0>(scores.view({T, c.groups, size}).topk(std::min<std::int64_t>(2, size), -1));
  const auto [value, index] = best.sum(-1).topk(c.top_groups + 1, -1);
  const Tensor mask = at::zeros({T, c.groups}, scores.options().dtype(at::kBool))
                          .scatter(1, index.narrow(1, 0, c.top_groups), true)
                          .unsqueeze(-1)
                          .expand({T, c.groups, size})
                          .reshape({T, -1});
  const Tensor margin = value.select(1, c.top_groups - 1) - value.select(1, c.top_groups);
  return {scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity()), margin};
}

void choose(const Tensor& scores, const RouterConfig& c, Routing& r) {
  Tensor biased = scores;
  if (c.groups > 1 && c.top_groups < c.groups) std::tie(biased, r.margin) = limited(scores, c);
  const bool more = c.k < scores.size(1);
  const auto [value, index] = biased.topk(c.k + (more ? 1 : 0), -1);
  r.ids = std::get<0>(index.narrow(1, 0, c.k).sort(-1));
  if (!more) return;
  const Tensor margin = value.select(1, c.k - 1) - value.select(1, c.k);
  r.margin = r.margin.defined() ? at::minimum(r.margin, margin) : margin;
}

Tensor gated_unit(const Tensor& gate, const Tensor& up, const UnitConfig& u) {
  const Tensor g = wide(gate), v = wide(up);
  const Tensor a = u.beta != 0 ? u.beta * at::tanh(g / u.beta) : g;
  const Tensor b = u.linear_beta != 0 ? u.linear_beta * at::tanh(v / u.linear_beta) : v;
  return (a * at::sigmoid(g) * b).to(gate.scalar_type());
}

Tensor mlp(const Tensor& x, const Tensor& gate, const Tensor& up, const Tensor& down,
           const UnitConfig& u) {
  return at::linear(gated_unit(at::linear(x, gate), at::linear(x, up), u), down);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor v = wide(x);
  return (v * at::rsqrt(v.square().mean(-1, true) + eps) * wide(weight)).to(x.scalar_type());
}

}  // namespace

Routing route(const Tensor& x, const Named& params, const RouterConfig& c, const Tensor& given) {
  Routing r;
  r.logits = at::linear(wide(x), wide(params.at(c.prefix + "weight")));
  if (const auto bias = params.find(c.prefix + "bias"); bias != params.end())
    r.logits = r.logits + wide(bias->second);
  r.scores = c.score == "sigmoid"   ? at::sigmoid(r.logits)
             : c.score == "softmax" ? at::softmax(r.logits, -1)
                                    : r.logits;
  const Tensor& scores = r.scores;
  r.ids = given;
  if (!given.defined()) {
    Tensor biased = scores.detach();
    if (const auto bias = params.find(c.prefix + "e_score_correction_bias"); bias != params.end())
      biased = biased + bias->second.detach();
    choose(biased, c, r);
  }
  const Tensor chosen = scores.gather(1, r.ids);
  if (c.score == "topk_softmax")
    r.weights = at::softmax(chosen, -1);
  else
    r.weights = c.renorm ? chosen / (chosen.sum(-1, true) + c.eps) : chosen;
  r.weights = r.weights * c.scale;
  return r;
}

Tensor experts(const Tensor& x, const Tensor& ids, const Tensor& weights, const Named& params,
               const std::string& prefix, std::int64_t count, const UnitConfig& u) {
  const Tensor x_wide = wide(x);  // gradients of a token's experts are added wide
  Tensor sum = at::zeros_like(x_wide);
  for (std::int64_t e = 0; e < count; ++e) {
    const std::vector<Tensor> at_e = at::where(ids == e);
    if (at_e[0].numel() == 0) continue;
    const auto weight = [&](const char* part) {
      return params.at(prefix + std::to_string(e) + part);
    };
    const Tensor rows = x_wide.index_select(0, at_e[0]).to(x.scalar_type());
    const Tensor y = mlp(rows, weight(".w1.weight"), weight(".w3.weight"), weight(".w2.weight"), u);
    sum = sum.index_add(0, at_e[0], wide(y) * weights.index({at_e[0], at_e[1]}).unsqueeze(-1));
  }
  return sum.to(x.scalar_type());
}

Tensor experts_grouped(const Tensor& x, const Tensor& ids, const Tensor& weights,
                       const Named& params, const std::string& prefix, std::int64_t count,
                       const UnitConfig& u, bool narrow) {
  const auto stacked = [&](const char* part) {
    std::vector<Tensor> all;
    for (std::int64_t e = 0; e < count; ++e)
      all.push_back(params.at(prefix + std::to_string(e) + part));
    return at::stack(all).transpose(1, 2);
  };
  const Tensor order = ids.flatten().argsort(true, -1, false);
  const Tensor tokens = order.floor_divide(ids.size(1));
  const Tensor ends = at::bincount(ids.flatten(), {}, count).cumsum(0).to(at::kInt);
  const Tensor x_wide = wide(x);
  const Tensor rows = x_wide.index_select(0, tokens).to(x.scalar_type());
  const Tensor gate = at::_grouped_mm(rows, stacked(".w1.weight"), ends);
  const Tensor up = at::_grouped_mm(rows, stacked(".w3.weight"), ends);
  const Tensor y = at::_grouped_mm(gated_unit(gate, up, u), stacked(".w2.weight"), ends);
  const Tensor part = wide(y) * weights.flatten().index_select(0, order).unsqueeze(-1);
  if (narrow) return at::zeros_like(x).index_add(0, tokens, part.to(x.scalar_type()));
  return at::zeros_like(x_wide).index_add(0, tokens, part).to(x.scalar_type());
}

MoeOutput moe(const Tensor& x, const Named& params, const MoeConfig& c, const Tensor& given) {
  const auto param = [&](const char* name) { return params.at(c.prefix + name); };
  RouterConfig router = c.router;
  router.prefix = c.prefix + router.prefix;
  MoeOutput out;
  out.routing = route(x, params, router, given);
  const Tensor z = c.latent ? at::linear(x, param("routed_expert_down_proj.weight")) : x;
  out.routed_sum = experts(z, out.routing.ids, out.routing.weights, params, c.prefix + "experts.",
                           c.experts, c.unit);
  Tensor routed = out.routed_sum;
  if (c.norm) routed = rms_norm(routed, param("routed_expert_norm.weight"), c.norm_eps);
  out.y = c.latent ? at::linear(routed, param("routed_expert_up_proj.weight")) : routed;
  if (c.shared)
    out.y = out.y + mlp(x, param("shared_experts.gate_proj.weight"),
                        param("shared_experts.up_proj.weight"),
                        param("shared_experts.down_proj.weight"), c.unit);
  return out;
}

}  // namespace parity::model
