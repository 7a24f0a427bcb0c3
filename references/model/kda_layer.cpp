#include "references/model/kda_layer.hpp"

#include <ATen/ATen.h>
#include <cmath>

namespace parity::model {
namespace {

using at::Tensor;

struct Layer {
  const Named& params;
  const KdaLayerConfig& c;

  Tensor param(const std::string& name) const { return params.at(c.prefix + name); }
  bool has(const std::string& name) const { return params.contains(c.prefix + name); }
  Tensor map(const Tensor& x, const std::string& name) const {
    return at::linear(x, param(name + ".weight"),
                      has(name + ".bias") ? param(name + ".bias") : Tensor{});
  }
  Tensor either(const Tensor& x, const std::string& full, const std::string& a,
                const std::string& b) const {
    return has(full + ".weight") ? map(x, full) : map(map(x, a), b);
  }
};

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

// Each sequence by itself, so that no window crosses a border.
Tensor convolve(const Layer& l, const Tensor& x, const std::string& name) {
  const Tensor weight = l.param(name + ".weight");
  const std::int64_t W = weight.size(-1);
  std::vector<Tensor> parts;
  for (std::size_t n = 0; n + 1 < l.c.starts.size(); ++n) {
    const std::int64_t length = l.c.starts[n + 1] - l.c.starts[n];
    if (length == 0) continue;
    const Tensor part = x.narrow(0, l.c.starts[n], length).t().unsqueeze(0);
    const Tensor z =
        at::conv1d(at::constant_pad_nd(part, {W - 1, 0}), weight,
                   l.has(name + ".bias") ? l.param(name + ".bias") : Tensor{}, at::IntArrayRef{1},
                   at::IntArrayRef{0}, at::IntArrayRef{1}, x.size(1));
    parts.push_back(at::silu(z).squeeze(0).t());
  }
  return at::cat(parts);
}

Tensor unit(const Tensor& x, double eps) { return x * at::rsqrt(x.square().sum(-1, true) + eps); }

}  // namespace

Tensor kda_layer(const Tensor& x, const Named& params, const KdaLayerConfig& c) {
  const Layer l{params, c};
  const std::int64_t R = x.size(0), group = c.HV / c.H;
  const auto heads = [&](const char* projection, const char* conv, std::int64_t n, std::int64_t d) {
    return wide(convolve(l, l.map(x, projection), conv)).view({R, n, d});
  };
  const Tensor q =
      unit(heads("q_proj", "q_conv1d", c.H, c.K), c.l2_eps).repeat_interleave(group, 1);
  const Tensor k =
      unit(heads("k_proj", "k_conv1d", c.H, c.K), c.l2_eps).repeat_interleave(group, 1);
  const Tensor v = heads("v_proj", "v_conv1d", c.HV, c.V);
  const Tensor raw = wide(l.either(x, "f_proj", "f_a_proj", "f_b_proj")).view({R, c.HV, c.K}) +
                     wide(l.param("dt_bias")).view({c.HV, c.K});
  const Tensor A = wide(l.param("A_log")).reshape({c.HV, 1}).exp();
  const Tensor g = c.lower ? c.bound * at::sigmoid(A * raw) : -A * at::softplus(raw, 1, 20);
  const Tensor beta = c.beta_scale * at::sigmoid(wide(l.map(x, "b_proj")));
  std::vector<Tensor> o;
  for (std::size_t n = 0; n + 1 < c.starts.size(); ++n) {
    Tensor S = at::zeros({c.HV, c.K, c.V}, v.options());
    for (std::int64_t t = c.starts[n]; t < c.starts[n + 1]; ++t) {
      S = S * g[t].exp().unsqueeze(-1);
      const Tensor e = v[t] - at::einsum("hkv,hk->hv", {S, k[t]});
      S = S + at::einsum("hk,hv->hkv", {k[t], beta[t].unsqueeze(-1) * e});
      o.push_back(at::einsum("hkv,hk->hv", {S, q[t]}));
    }
  }
  const Tensor out = at::stack(o) / std::sqrt(static_cast<double>(c.K));
  const Tensor gate = wide(l.either(x, "g_proj", "g_a_proj", "g_b_proj")).view({R, c.HV, c.V});
  const Tensor normed = out * at::rsqrt(out.square().mean(-1, true) + c.norm_eps) *
                        wide(l.param("o_norm.weight")) * at::sigmoid(gate);
  return l.map(normed.to(x.scalar_type()).flatten(1), "o_proj");
}

}  // namespace parity::model
