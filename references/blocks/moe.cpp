#include "references/blocks/moe.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace parity::net {

template <class T>
Mlp maybe_wrong(const Run<T>& run, Mlp m) {
  if (run.fault("P-moe-swiglu")) m.unit = {};
  if (run.fault("P-moe-no-linear-beta")) m.unit.linear_beta = 0;
  if (run.fault("P-moe-gate-up")) std::swap(m.gate, m.up);
  return m;
}

namespace {

// Slots (t k + j) of each expert, ascending.
template <class T>
std::vector<std::vector<std::int64_t>> slots_by_expert(const Routing<T>& r) {
  std::vector<std::vector<std::int64_t>> slots(r.load.size());
  for (std::size_t i = 0; i < r.ids.size(); ++i)
    slots[static_cast<std::size_t>(r.ids[i])].push_back(static_cast<std::int64_t>(i));
  return slots;
}

template <class T>
Array<T> rows_of(const Array<T>& x, const std::vector<std::int64_t>& rows, std::int64_t divisor) {
  Array<T> picked({std::ssize(rows), x.width()});
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(x.row(rows[i] / divisor), picked.row(static_cast<std::int64_t>(i)).begin());
  return picked;
}

template <class T>
Mlp expert(const Run<T>& run, const Experts& all, std::size_t e, std::size_t count) {
  std::string name = std::to_string(e);
  if (run.fault("A-CK01")) {
    std::vector<std::string> names(count);
    for (std::size_t i = 0; i < count; ++i) names[i] = std::to_string(i);
    std::ranges::sort(names);
    name = names[e];
  }
  Mlp m{.gate = all.prefix + name + ".w1",
        .up = all.prefix + name + ".w3",
        .down = all.prefix + name + ".w2",
        .unit = all.unit};
  return maybe_wrong(run, std::move(m));
}

template <class T>
Array<T> expert_output(Run<T>& run, const Array<T>& z, const Mlp& m) {
  const Array<T>& w2 = run.param(m.down + ".weight");
  if (!run.fault("A-MR07") || w2.rows() != w2.width()) return mlp(run, z, m);
  Array<T> y =
      times(run, gated_unit(run, linear(run, z, m.gate), linear(run, z, m.up), m.unit), w2);
  run.store(y);
  return y;
}

// Expert by expert; variants of the base add them in the opposite order.
template <class T>
Array<T> combine(Run<T>& run, const Routing<T>& r, const Array<T>& by_slot) {
  const std::int64_t k = r.weights.width(), rows = r.weights.rows(), width = by_slot.width();
  const bool narrow = run.rounds("combine");
  Array<T> sum({rows, width});
  for (std::int64_t n = 0; n < k; ++n) {
    const std::int64_t j = run.variation() % 2 == 1 && !narrow ? k - 1 - n : n;
    Array<T> part({rows, width});
    for (std::int64_t t = 0; t < rows; ++t) {
      const T w = run.fault("P-moe-unweighted") ? T{1} : r.weights[t * k + j];
      for (std::int64_t i = 0; i < width; ++i)
        part[t * width + i] = w * by_slot[(t * k + j) * width + i];
    }
    if (narrow) run.store(part);
    if (run.fault("P-moe-last-expert") && n + 1 == k && k > 1) continue;
    add(sum, part);
    if (narrow) run.store(sum);
  }
  run.store(sum);
  return sum;
}

}  // namespace

template <class T>
Mixture<T> experts(Run<T>& run, const Array<T>& z, const Routing<T>& r, const Experts& all) {
  const auto slots = slots_by_expert(r);
  const std::int64_t k = r.weights.width();
  Mixture<T> m{.sum = {}, .by_slot = Array<T>({std::ssize(r.ids), z.width()})};
  for (std::size_t e = 0; e < slots.size(); ++e) {
    if (slots[e].empty()) continue;
    const Array<T> y =
        expert_output(run, rows_of(z, slots[e], k), expert(run, all, e, slots.size()));
    for (std::size_t i = 0; i < slots[e].size(); ++i)
      std::ranges::copy(y.row(static_cast<std::int64_t>(i)), m.by_slot.row(slots[e][i]).begin());
  }
  m.sum = combine(run, r, m.by_slot);
  return m;
}

template <class T>
MixtureGradients<T> experts_backward(Run<T>& run, const Array<T>& z, const Routing<T>& r,
                                     const Mixture<T>& m, const Array<T>& d_sum,
                                     const Experts& all) {
  const auto slots = slots_by_expert(r);
  const std::int64_t k = r.weights.width(), width = z.width();
  MixtureGradients<T> d{.z = Array<T>(z.shape), .weights = Array<T>(r.weights.shape)};
  std::vector<T> terms(static_cast<std::size_t>(width));
  for (std::int64_t s = 0; s < d.weights.count(); ++s) {
    for (std::int64_t i = 0; i < width; ++i)
      terms[static_cast<std::size_t>(i)] = d_sum[s / k * width + i] * m.by_slot[s * width + i];
    d.weights[s] = run.sum(terms);
  }
  run.keep(d.weights);
  for (std::size_t e = 0; e < slots.size(); ++e) {
    const Mlp one = expert(run, all, e, slots.size());
    if (slots[e].empty()) {
      if (!run.fault("A-MR01")) continue;  // the gradients stay zero
      Array<T> never(run.param(one.gate + ".weight").shape);
      std::ranges::fill(never.data, std::numeric_limits<T>::quiet_NaN());
      run.param_grad(one.gate + ".weight", never);
      continue;
    }
    Array<T> dy = rows_of(d_sum, slots[e], k);
    for (std::size_t i = 0; i < slots[e].size(); ++i)
      for (T& g : dy.row(static_cast<std::int64_t>(i)))
        g *= run.fault("P-moe-dy-unweighted") ? T{1} : r.weights[slots[e][i]];
    run.store(dy);
    const Array<T> dz = mlp_backward(run, rows_of(z, slots[e], k), dy, one);
    for (std::size_t i = 0; i < slots[e].size(); ++i) {
      const std::span<const T> from = dz.row(static_cast<std::int64_t>(i));
      const std::span<T> to = d.z.row(slots[e][i] / k);
      for (std::size_t c = 0; c < from.size(); ++c) to[c] += from[c];
    }
  }
  run.store(d.z);
  return d;
}

namespace {

Mlp shared_mlp(const Moe& layer) {
  const std::string prefix = layer.prefix + "shared_experts.";
  return {.gate = prefix + "gate_proj",
          .up = prefix + "up_proj",
          .down = prefix + "down_proj",
          .unit = layer.experts.unit};
}

Experts experts_of(const Moe& layer) {
  return {.prefix = layer.prefix + layer.experts.prefix, .unit = layer.experts.unit};
}

// [.., D] -> [rows, D]
template <class T>
Array<T> flat(const Array<T>& x) {
  return x.as({x.rows(), x.width()});
}

// The latent norm, right or wrong.
template <class T>
Array<T> normed_sum(Run<T>& run, const MoeLayer<T>& l, const Moe& layer) {
  const std::string weight = layer.prefix + "routed_expert_norm.weight";
  Norm norm{.eps = layer.norm_eps};
  if (!layer.norm || run.fault("P-moe-no-norm")) return l.mixture.sum;
  if (run.fault("P-moe-norm-eps")) norm.eps = layer.norm_eps / 10;
  if (run.fault("P-moe-norm-first"))
    return combine(run, l.routing, rms_norm(run, l.mixture.by_slot, weight, norm));
  return rms_norm(run, l.mixture.sum, weight, norm);
}

}  // namespace

template <class T>
MoeLayer<T> moe(Run<T>& run, const Array<T>& x_any, const Moe& layer) {
  const Array<T> x = flat(x_any);
  MoeLayer<T> l;
  l.routing = route(run, x, layer.prefix + "gate", layer.rule);
  l.latent = layer.latent ? linear(run, x, layer.prefix + "routed_expert_down_proj") : x;
  l.mixture = experts(run, l.latent, l.routing, experts_of(layer));
  l.normed = normed_sum(run, l, layer);
  l.routed =
      layer.latent ? linear(run, l.normed, layer.prefix + "routed_expert_up_proj") : l.normed;
  l.y = l.routed;
  if (layer.shared) {
    l.shared = mlp(run, x, maybe_wrong(run, shared_mlp(layer)));
    Array<T> part = l.shared;
    if (run.fault("A-MR04"))
      for (T& value : part.data) value /= static_cast<T>(layer.rule.scale);
    if (!run.fault("P-moe-no-shared")) add(l.y, part);
    run.store(l.y);
  }
  l.y = l.y.as(x_any.shape);
  return l;
}

template <class T>
MoeGradients<T> moe_backward(Run<T>& run, const Array<T>& x_any, const MoeLayer<T>& l,
                             const Array<T>& dy_any, const Moe& layer) {
  const Array<T> x = flat(x_any), dy = flat(dy_any);
  MoeGradients<T> d;
  d.normed = layer.latent
                 ? linear_backward(run, l.normed, dy, layer.prefix + "routed_expert_up_proj")
                 : dy;
  d.sum = layer.norm ? rms_norm_backward(run, l.mixture.sum, d.normed,
                                         layer.prefix + "routed_expert_norm.weight",
                                         Norm{.eps = layer.norm_eps})
                     : d.normed;
  MixtureGradients<T> m =
      experts_backward(run, l.latent, l.routing, l.mixture, d.sum, experts_of(layer));
  if (run.fault("P-moe-no-router-gradient")) std::ranges::fill(m.weights.data, T{0});
  d.router = route_backward(run, x, l.routing, m.weights, layer.prefix + "gate", layer.rule);
  d.weights = std::move(m.weights);
  d.latent = std::move(m.z);
  d.x = layer.latent ? linear_backward(run, x, d.latent, layer.prefix + "routed_expert_down_proj")
                     : d.latent;
  if (!run.fault("P-moe-dx-router")) add(d.x, d.router.x);
  if (layer.shared) add(d.x, mlp_backward(run, x, dy, maybe_wrong(run, shared_mlp(layer))));
  run.store(d.x);
  d.x = d.x.as(x_any.shape);
  return d;
}

#define PARITY_INSTANTIATE(T)                                                                \
  template Mlp maybe_wrong(const Run<T>&, Mlp);                                              \
  template Mixture<T> experts(Run<T>&, const Array<T>&, const Routing<T>&, const Experts&);  \
  template MixtureGradients<T> experts_backward(Run<T>&, const Array<T>&, const Routing<T>&, \
                                                const Mixture<T>&, const Array<T>&,          \
                                                const Experts&);                             \
  template MoeLayer<T> moe(Run<T>&, const Array<T>&, const Moe&);                            \
  template MoeGradients<T> moe_backward(Run<T>&, const Array<T>&, const MoeLayer<T>&,        \
                                        const Array<T>&, const Moe&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
