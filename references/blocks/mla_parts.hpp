// What the forward and the backward of mla share, and where its faults sit.
#pragma once

#include <cmath>

#include "references/blocks/layers.hpp"
#include "references/blocks/mla.hpp"
#include "references/blocks/parts.hpp"
#include "references/blocks/scalar.hpp"

namespace parity::net {

template <class T>
Norm latent(const Run<T>& run, const Mla& m) {
  return {.eps = run.fault("P-mla-eps") ? 10 * m.eps : m.eps};
}

template <class T>
bool omits_norm(const Run<T>& run, const std::string& name) {
  return run.fault(name == "q_a_layernorm" ? "P-mla-no-q-norm" : "P-mla-no-kv-norm");
}

template <class T>
double scale_of(const Run<T>& run, const Mla& m) {
  const double scale = m.softmax_scale(), D = static_cast<double>(m.nope + m.rotary);
  if (run.fault("P-mla-scale")) return scale * std::sqrt(D / static_cast<double>(m.nope));
  if (run.fault("A-AT05")) {
    Yarn swapped = m.rope.yarn;
    swapped.mscale_all = swapped.mscale;
    return scale * swapped.softmax_factor() / m.rope.yarn.softmax_factor();
  }
  return scale;
}

// Cached rows before the new ones, sequence by sequence.
template <class T>
Array<T> behind(const Array<T>& cached, const Array<T>& fresh, const MlaRows<T>& rows) {
  if (rows.past == 0) return fresh;
  const std::int64_t T_new = fresh.shape[0] / rows.batch, S = rows.past + T_new;
  Array<T> all({rows.batch * S, fresh.width()});
  for (std::int64_t b = 0; b < rows.batch; ++b) {
    put_rows(all, b * S, rows_of(cached, b * rows.past, rows.past));
    put_rows(all, b * S + rows.past, rows_of(fresh, b * T_new, T_new));
  }
  return all;
}

template <class T>
Array<T> with_cached(const MlaRows<T>& rows, const Array<T>& latent) {
  return behind(rows.cached_latent, latent, rows);
}

// W_K [N,C] and W_V [V,C] of a head, rows of kv_b_proj.
template <class T>
Array<T> key_map(Run<T>& run, const Mla& m, std::int64_t h) {
  return rows_of(run.param(m.prefix + "kv_b_proj.weight"), h * (m.nope + m.value), m.nope);
}
template <class T>
Array<T> value_map(Run<T>& run, const Mla& m, std::int64_t h) {
  return rows_of(run.param(m.prefix + "kv_b_proj.weight"), h * (m.nope + m.value) + m.nope,
                 m.value);
}

// k_r, the last channels of kv_a: neither normed nor weighted.
template <class T>
Array<T> shared_key(const Run<T>& run, const Array<T>& kv_a, const Mla& m) {
  Array<T> k_r = columns_of(kv_a, kv_a.width() - m.rotary, m.rotary);
  if (!run.fault("P-mla-kr-normed")) return k_r;
  for (std::int64_t r = 0; r < k_r.rows(); ++r) {
    T sum = 0;
    for (const T x : k_r.row(r)) sum += x * x;
    for (T& x : k_r.row(r)) x /= std::sqrt(sum / static_cast<T>(m.rotary) + static_cast<T>(m.eps));
  }
  return k_r;
}

template <class T>
Rope::Pairs turns_of(const Run<T>& run, const Mla& m) {
  if (run.fault("P-mla-no-rope")) return Rope::Pairs::None;
  if (run.fault("P-mla-rope-pairs") && m.rope.pairs != Rope::Pairs::None)
    return m.rope.pairs == Rope::Pairs::Half ? Rope::Pairs::Interleaved : Rope::Pairs::Half;
  return m.rope.pairs;
}

// The gate reads the layer's own input.
template <class T>
Array<T> gate_input(const Run<T>& run, const Array<T>& x) {
  if (!run.fault("P-mla-gate-input")) return x;
  Array<T> normed = x;  // normed once more
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    T sum = 0;
    for (const T value : x.row(r)) sum += value * value;
    for (T& value : normed.row(r)) value /= std::sqrt(sum / static_cast<T>(x.width()));
  }
  return normed;
}
template <class T>
T gate_value(const Run<T>& run, T logit) {
  if (run.fault("P-mla-no-gate")) return 1;
  return run.fault("P-mla-gate-twice") ? 2 * sigmoid(logit) : sigmoid(logit);
}

// delta = do . o pairs the gated cotangent with the output before the gate; null: as the softmax
// itself computes it.
template <class T>
Array<T> wrong_delta(const Run<T>& run, const MlaForward<T>& f, const Array<T>& d_gated,
                     const Mla& m) {
  const bool gated_o = run.fault("P-mla-delta-gated-o"),
             ungated_do = run.fault("P-mla-delta-ungated");
  if (!m.gate || (!gated_o && !ungated_do)) return {};
  Array<T> delta({d_gated.rows(), m.heads});
  for (std::int64_t i = 0; i < d_gated.count(); ++i) {
    const T gate = f.gate[i];
    delta[i / m.value] += d_gated[i] * f.attn_out[i] * (gated_o ? gate * gate : T{1});
  }
  return delta;
}

}  // namespace parity::net
