#include "references/blocks/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/dtype.hpp"
#include "harness/failure.hpp"
#include "references/blocks/parts.hpp"
#include "references/blocks/scalar.hpp"

namespace parity::net {
namespace {

constexpr std::int64_t kTile = 16;  // of the faults that concern tiles

// Which key and value head a query head reads.
template <class T>
std::int64_t kv_head(const Run<T>& run, std::int64_t h, std::int64_t H, std::int64_t G) {
  return run.fault("P-at-kv-head") ? h % G : h / (H / G);
}

template <class T>
Keys seen_by(const Run<T>& run, const Keys& declared, std::int64_t S) {
  Keys keys = declared;
  if (run.fault("P-at-mask")) keys.last = std::min(S, keys.last + 1);
  if (run.fault("P-at-documents")) keys.first = 0;
  if (run.fault("A-AT08")) keys.last = std::min(S, (keys.last + kTile - 1) / kTile * kTile);
  return keys;
}

// Logits to weights in place; returns log sum exp.
template <class T>
T softmax(const Run<T>& run, std::span<T> z_S, const Keys& keys, T scale) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  std::vector<std::size_t> seen;
  for (std::int64_t s = keys.first; s < keys.last; ++s)
    if (keys.sees(s)) seen.push_back(static_cast<std::size_t>(s));
  std::vector<T> weights;
  T top = kNone;
  for (const std::size_t s : seen) {
    weights.push_back(keys.flat ? T{0} : scale * z_S[s]);
    top = std::max(top, weights.back());
  }
  std::ranges::fill(z_S, T{0});
  if (seen.empty()) return kNone;
  if (run.fault("P-at-max")) top = 0;
  for (T& w : weights) w = std::exp(w - top);
  const T total = run.sum(weights);
  for (std::size_t i = 0; i < seen.size(); ++i) z_S[seen[i]] = weights[i] / total;
  return (top + std::log(total)) *
         (run.fault("P-at-lse-base") ? static_cast<T>(1.4426950408889634) : T{1});
}

// The weights that a faulty backward recomputes from a wrong log sum exp.
template <class T>
T recomputed(const Run<T>& run, const Attended<T>& a, std::int64_t r, std::int64_t h) {
  const std::int64_t H = a.lse.shape[1], S = a.p.shape[2];
  const T lse = a.lse[r * H + h];
  if (std::isinf(lse)) return 1;
  if (run.fault("A-AT03")) return std::exp(lse - a.lse[r % kTile * H + h]);
  const std::int64_t phantom = (kTile - S % kTile) % kTile;
  if (run.fault("A-AT01") && phantom > 0) return 1 / (1 + static_cast<T>(phantom) * std::exp(-lse));
  return 1;
}

// sum_s P dP, as a softmax's own backward has it (truth), or do . o, as fused kernels have it
// (f32).
template <class T>
T delta_of(const Run<T>& run, std::span<const T> p_S, std::span<const T> dp_S,
           std::span<const T> o_D, std::span<const T> do_D) {
  std::vector<T> o(o_D.begin(), o_D.end());
  const bool rounded = run.fault("P-at-o-rounded");
  for (T& x : o)
    if (rounded) x = static_cast<T>(round_to(Dtype::BF16, x));
  const bool by_output = rounded || (run.variation() % 2 == 1) != std::is_same_v<T, float>;
  const T delta = by_output ? dot<T>(run, o, do_D) : dot(run, p_S, dp_S);
  return run.fault("A-AT02") ? delta * static_cast<T>((o_D.size() + 3) / 4) : delta;
}

}  // namespace

std::vector<Keys> causal_keys(const std::vector<std::int64_t>& documents, std::int64_t past) {
  std::vector<Keys> keys;
  std::int64_t first = 0;
  for (const std::int64_t length : documents) {
    for (std::int64_t t = 0; t < length; ++t) keys.push_back({first, past + first + t + 1});
    first += length;
  }
  return keys;
}

template <class T>
Attended<T> attention(Run<T>& run, const Array<T>& q, const Array<T>& k, const Array<T>& v,
                      double scale, const std::vector<Keys>& keys) {
  const std::int64_t R = q.shape[0], H = q.shape[1], S = k.shape[0], G = k.shape[1];
  if (std::ssize(keys) != R || v.shape[1] != G || G == 0 || H % G != 0 || v.shape[0] != S)
    throw Failure("shapes of an attention do not fit");
  Attended<T> out{Array<T>({R, H, v.shape[2]}), Array<T>({R, H, S}), Array<T>({R, H}), {}};
  for (std::int64_t h = 0; h < H; ++h) {
    Array<T> z = times_transposed(run, head_of(q, h), head_of(k, kv_head(run, h, H, G)));
    for (std::int64_t r = 0; r < R; ++r) {
      const Keys seen = seen_by(run, keys[static_cast<std::size_t>(r)], S);
      out.lse[r * H + h] = softmax(run, z.row(r), seen, static_cast<T>(scale));
    }
    add_head(out.p, h, z);
  }
  run.store(out.p);
  for (std::int64_t h = 0; h < H; ++h)
    add_head(out.o, h, times(run, head_of(out.p, h), head_of(v, kv_head(run, h, H, G))));
  out.o_wide = out.o;
  run.store(out.o);
  return out;
}

template <class T>
AttentionGradients<T> attention_backward(Run<T>& run, const Array<T>& q, const Array<T>& k,
                                         const Array<T>& v, const Attended<T>& a,
                                         const Array<T>& d_o, double scale,
                                         const std::vector<Keys>& keys, const Array<T>* delta) {
  const std::int64_t R = q.shape[0], H = q.shape[1], G = k.shape[1];
  if (std::ssize(keys) != R) throw Failure("shapes of an attention do not fit");
  AttentionGradients<T> d{Array<T>(q.shape), Array<T>(k.shape), Array<T>(v.shape)};
  for (std::int64_t h = 0; h < H; ++h) {
    const std::int64_t g = kv_head(run, h, H, G);
    const Array<T> q_h = head_of(q, h), k_g = head_of(k, g), do_h = head_of(d_o, h);
    Array<T> p = head_of(a.p, h), dz = times_transposed(run, do_h, head_of(v, g));
    for (std::int64_t r = 0; r < R; ++r) {
      const std::span<T> p_S = p.row(r), dz_S = dz.row(r);
      const T wrong = recomputed(run, a, r, h);
      for (T& x : p_S) x *= wrong;
      const T shift =
          delta ? (*delta)[r * H + h]
                : delta_of<T>(run, p.row(r), dz.row(r), a.o_wide.row(r * H + h), do_h.row(r));
      for (std::size_t s = 0; s < dz_S.size(); ++s)
        dz_S[s] = p_S[s] * (dz_S[s] - shift) * static_cast<T>(scale);
    }
    run.store(dz);
    add_head(d.q, h, times(run, dz, k_g));
    if (run.fault("P-at-group-sum") && h % (H / G) != 0) continue;
    add_head(d.k, g, transposed_times(run, dz, q_h));
    add_head(d.v, g, transposed_times(run, p, do_h));
  }
  run.store(d.q);
  run.store(d.k);
  run.store(d.v);
  return d;
}

#define PARITY_INSTANTIATE(T)                                                                \
  template Attended<T> attention(Run<T>&, const Array<T>&, const Array<T>&, const Array<T>&, \
                                 double, const std::vector<Keys>&);                          \
  template AttentionGradients<T> attention_backward(                                         \
      Run<T>&, const Array<T>&, const Array<T>&, const Array<T>&, const Attended<T>&,        \
      const Array<T>&, double, const std::vector<Keys>&, const Array<T>*);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
