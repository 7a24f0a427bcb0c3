#include "references/model/mla.hpp"

#include <ATen/ATen.h>
#include <limits>

namespace parity::model {
namespace {

using at::Tensor;

struct Layer {
  const std::map<std::string, Tensor>& params;
  const MlaConfig& c;

  Tensor weight(const std::string& name) const { return params.at(c.prefix + name + ".weight"); }
  bool has(const std::string& name) const { return params.contains(c.prefix + name + ".weight"); }
  Tensor map(const Tensor& x, const std::string& name) const {
    const auto bias = params.find(c.prefix + name + ".bias");
    return at::linear(x, weight(name), bias == params.end() ? Tensor{} : bias->second);
  }
};

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

Tensor norm(const Layer& l, const Tensor& x, const std::string& name) {
  const Tensor w = wide(x);
  return (w * at::rsqrt(w.square().mean(-1, true) + l.c.eps) * wide(l.weight(name)))
      .to(x.scalar_type());
}

// x [B,heads,T,rotary]
Tensor turn(const Layer& l, const Tensor& x) {
  if (!l.c.cos.defined()) return x;
  const Tensor cos = l.c.cos.unsqueeze(1).to(x.scalar_type()),
               sin = l.c.sin.unsqueeze(1).to(x.scalar_type());
  if (l.c.interleaved) {
    const Tensor pairs = x.unflatten(-1, {-1, 2}), a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return at::stack({a * cos - b * sin, b * cos + a * sin}, -1).flatten(-2);
  }
  const std::vector<Tensor> halves = x.chunk(2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

// Weights of q [B,H,T,K] over k [B,H or 1,S,K].
Tensor weights(const Layer& l, const Tensor& q, const Tensor& k) {
  const Tensor logits = at::matmul(wide(q), wide(k).transpose(-1, -2)) * l.c.scale;
  if (!l.c.allowed.defined()) return at::softmax(logits, -1).to(q.scalar_type());
  const double lowest = logits.scalar_type() == at::kDouble
                            ? std::numeric_limits<double>::lowest()
                            : static_cast<double>(std::numeric_limits<float>::lowest());
  if (l.c.leak) {
    const Tensor added = at::zeros(l.c.allowed.sizes(), logits.options())
                             .masked_fill(l.c.allowed.logical_not(), lowest);
    return at::softmax(logits + added, -1).to(q.scalar_type());
  }
  const Tensor p = at::softmax(logits.masked_fill(l.c.allowed.logical_not(), lowest), -1);
  return (p * l.c.allowed.any(-1, true).to(p.scalar_type())).to(q.scalar_type());
}

Tensor joined(const Tensor& cached, const Tensor& fresh) {
  return cached.defined() ? at::cat({cached, fresh}, 1) : fresh;
}

}  // namespace

Tensor mla(const Tensor& x, const std::map<std::string, Tensor>& params, const MlaConfig& c) {
  const Layer l{params, c};
  const std::int64_t B = x.size(0), T = x.size(1), H = c.heads, N = c.nope, R = c.rotary;
  const Tensor q_all = l.has("q_a_proj")
                           ? l.map(norm(l, l.map(x, "q_a_proj"), "q_a_layernorm"), "q_b_proj")
                           : l.map(x, "q_proj");
  const std::vector<Tensor> q =
      q_all.view({B, T, H, N + R}).transpose(1, 2).split_with_sizes({N, R}, -1);
  const Tensor kv_a = l.map(x, "kv_a_proj_with_mqa");
  const std::int64_t C = kv_a.size(-1) - R;
  const Tensor latent = joined(c.cached_latent, norm(l, kv_a.narrow(-1, 0, C), "kv_a_layernorm"));
  const Tensor k_r =
      joined(c.cached_k_r, turn(l, kv_a.narrow(-1, C, R).unsqueeze(1)).squeeze(1)).unsqueeze(1);
  const Tensor q_r = turn(l, q[1]);
  const std::int64_t S = latent.size(1);
  Tensor o;
  if (c.absorb) {
    const std::vector<Tensor> w =
        l.weight("kv_b_proj").view({H, N + c.value, C}).split_with_sizes({N, c.value}, 1);
    const Tensor q_c = at::einsum("bhtn,hnc->bhtc", {q[0], w[0]});
    const Tensor p = weights(l, at::cat({q_c, q_r}, -1), at::cat({latent.unsqueeze(1), k_r}, -1));
    o = at::einsum("bhtc,hvc->bhtv", {at::matmul(p, latent.unsqueeze(1)), w[1]});
  } else {
    const std::vector<Tensor> kv = l.map(latent, "kv_b_proj")
                                       .view({B, S, H, N + c.value})
                                       .transpose(1, 2)
                                       .split_with_sizes({N, c.value}, -1);
    const Tensor k = at::cat({kv[0], k_r.expand({B, H, S, R})}, -1);
    o = at::matmul(weights(l, at::cat({q[0], q_r}, -1), k), kv[1]);
  }
  o = o.transpose(1, 2).reshape({B, T, H * c.value});
  if (l.has("g_proj")) o = o * at::sigmoid(l.map(x, "g_proj"));
  return l.map(o, "o_proj");
}

}  // namespace parity::model
