#include "references/blocks/kda_layer.hpp"

#include <cmath>

#include "references/blocks/conv.hpp"
#include "references/blocks/layers.hpp"
#include "references/blocks/scalar.hpp"

namespace parity::net {
namespace {

constexpr const char* kProjections[3] = {"q_proj", "k_proj", "v_proj"};
constexpr const char* kConvolutions[3] = {"q_conv1d", "k_conv1d", "v_conv1d"};

// Two linear maps through a narrow middle, or one.
template <class T>
Array<T> low_rank(Run<T>& run, const Array<T>& x, const std::string& a, const std::string& b) {
  return linear(run, linear(run, x, a), b);
}
template <class T>
Array<T> low_rank_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy, const std::string& a,
                           const std::string& b) {
  return linear_backward(run, x, linear_backward(run, linear(run, x, a), dy, b), a);
}

template <class T>
Array<T> forget(Run<T>& run, const Array<T>& x, const KdaLayer& l) {
  return l.full_forget ? linear(run, x, l.name("f_proj"))
                       : low_rank(run, x, l.name("f_a_proj"), l.name("f_b_proj"));
}
template <class T>
Array<T> output_gate(Run<T>& run, const Array<T>& x, const KdaLayer& l) {
  return l.low_output ? low_rank(run, x, l.name("g_a_proj"), l.name("g_b_proj"))
                      : linear(run, x, l.name("g_proj"));
}

KdaGate gate_of(const KdaLayer& l) {
  return {l.lower, l.bound, l.name("A_log"), l.name("dt_bias")};
}

// Channels [first, first + count) of a state [N,C,W].
template <class T>
Array<T> channels(const Array<T>& state, std::int64_t first, std::int64_t count) {
  const std::int64_t N = state.shape[0], C = state.shape[1], W = state.shape[2];
  Array<T> part({N, count, W});
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t i = 0; i < count * W; ++i)
      part[n * count * W + i] = state[(n * C + first) * W + i];
  return part;
}

template <class T>
Array<T> joined(const Array<T> (&parts)[3]) {
  const std::int64_t N = parts[0].shape[0], W = parts[0].shape[2];
  Array<T> all({N, parts[0].shape[1] + parts[1].shape[1] + parts[2].shape[1], W});
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < N; ++n)
    for (const Array<T>& part : parts)
      for (std::int64_t i = 0; i < part.shape[1] * W; ++i)
        all[at++] = part[n * part.shape[1] * W + i];
  return all;
}

}  // namespace

template <class T>
KdaTrace<T> kda_layer(Run<T>& run, const Array<T>& x, const KdaLayer& l,
                      const KdaStates<T>* before) {
  const std::int64_t R = x.rows();
  KdaTrace<T> t;
  std::int64_t first = 0;
  Array<T> states[3];
  for (std::size_t i = 0; i < 3; ++i) {
    t.projected[i] = linear(run, x, l.name(kProjections[i]));
    const std::string conv = l.name(kConvolutions[i]);
    const std::int64_t C = t.projected[i].width(), W = run.param(conv + ".weight").width();
    Array<T> old;
    if (before) old = channels(before->conv, first, C);
    first += C;
    t.convolved[i] = short_conv(run, t.projected[i], conv, l.starts, before ? &old : nullptr);
    states[i] = conv_state(t.projected[i], W, l.starts, before ? &old : nullptr);
  }
  t.states.conv = joined(states);
  t.raw_gate = forget(run, x, l);
  t.beta_logit = linear(run, x, l.name("b_proj"));
  t.gate = output_gate(run, x, l);
  t.core.q = l2_norm(run, t.convolved[0].as({R, l.H, l.K}), l.l2_eps);
  t.core.k = l2_norm(run, t.convolved[1].as({R, l.H, l.K}), l.l2_eps);
  t.core.v = t.convolved[2].as({R, l.HV, l.V});
  t.core.g = kda_gate(run, t.raw_gate, gate_of(l));
  t.core.beta = t.beta_logit;
  const T beta_scale = run.fault("P-beta-scale") ? T{1} : static_cast<T>(l.beta_scale);
  for (T& beta : t.core.beta.data) beta = beta_scale * sigmoid(beta);
  t.core.scale = 1 / std::sqrt(static_cast<double>(run.fault("P-kda-scale-v") ? l.V : l.K));
  t.core.starts = l.starts;
  KdaResult<T> core = kda_recurrence(run, t.core, before ? &before->recurrent : nullptr);
  t.states.recurrent = std::move(core.state);
  t.o = std::move(core.o);
  t.normed = gated_norm(run, t.o, t.gate.as(t.o.shape), l.name("o_norm.weight"), l.norm_eps)
                 .as({R, l.HV * l.V});
  t.y = linear(run, t.normed, l.name("o_proj"));
  return t;
}

template <class T>
Array<T> kda_layer_backward(Run<T>& run, const Array<T>& x, const KdaTrace<T>& t,
                            const Array<T>& dy, const KdaLayer& l) {
  const std::int64_t R = x.rows();
  const Array<T> d_normed = linear_backward(run, t.normed, dy, l.name("o_proj"));
  const GatedNormGradients<T> d_norm = gated_norm_backward(
      run, t.o, t.gate.as(t.o.shape), d_normed.as(t.o.shape), l.name("o_norm.weight"), l.norm_eps);
  KdaGradients<T> d = kda_recurrence_backward(run, t.core, d_norm.o);
  const Array<T> d_convolved[3] = {
      l2_norm_backward(run, t.convolved[0].as({R, l.H, l.K}), d.q, l.l2_eps).as({R, l.H * l.K}),
      l2_norm_backward(run, t.convolved[1].as({R, l.H, l.K}), d.k, l.l2_eps).as({R, l.H * l.K}),
      d.v.as({R, l.HV * l.V})};
  Array<T> dx(x.shape);
  for (std::size_t i = 0; i < 3; ++i) {
    const Array<T> d_projected = short_conv_backward(run, t.projected[i], d_convolved[i],
                                                     l.name(kConvolutions[i]), l.starts);
    add(dx, linear_backward(run, x, d_projected, l.name(kProjections[i])));
  }
  const Array<T> d_raw = kda_gate_backward(run, t.raw_gate, d.g.as(t.raw_gate.shape), gate_of(l));
  add(dx, l.full_forget ? linear_backward(run, x, d_raw, l.name("f_proj"))
                        : low_rank_backward(run, x, d_raw, l.name("f_a_proj"), l.name("f_b_proj")));
  Array<T> d_logit = t.beta_logit;
  for (std::int64_t i = 0; i < d_logit.count(); ++i) {
    const T slope = sigmoid(t.beta_logit[i]) * sigmoid(-t.beta_logit[i]);
    d_logit[i] = d.beta[i] * static_cast<T>(l.beta_scale) * slope;
  }
  run.store(d_logit);
  add(dx, linear_backward(run, x, d_logit, l.name("b_proj")));
  const Array<T> d_gate = d_norm.gate.as({R, l.HV * l.V});
  add(dx, l.low_output ? low_rank_backward(run, x, d_gate, l.name("g_a_proj"), l.name("g_b_proj"))
                       : linear_backward(run, x, d_gate, l.name("g_proj")));
  run.store(dx);
  return dx;
}

#define PARITY_INSTANTIATE(T)                                                                     \
  template KdaTrace<T> kda_layer(Run<T>&, const Array<T>&, const KdaLayer&, const KdaStates<T>*); \
  template Array<T> kda_layer_backward(Run<T>&, const Array<T>&, const KdaTrace<T>&,              \
                                       const Array<T>&, const KdaLayer&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
