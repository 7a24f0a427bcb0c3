#include "references/blocks/mla.hpp"

#include <cmath>

#include "harness/failure.hpp"
#include "references/blocks/mla_parts.hpp"

namespace parity::net {
namespace {

template <class T>
Array<T> latent_norm(Run<T>& run, const Array<T>& a, const std::string& name, const Mla& m) {
  if (omits_norm(run, name)) return a;
  return rms_norm(run, a, m.prefix + name + ".weight", latent(run, m));
}

// [q_n | q_r] and [k_n | k_r], and what they weigh.
template <class T>
void expand(Run<T>& run, MlaForward<T>& f, const Array<T>& latent, const Array<T>& k_r,
            const Mla& m) {
  const std::int64_t S = latent.shape[0], H = m.heads, N = m.nope, R = m.rotary, V = m.value;
  f.kv = linear(run, latent, m.prefix + "kv_b_proj");
  const Array<T> by_head = f.kv.as({S, H, N + V});
  const std::int64_t value_first = run.fault("P-mla-kv-order") ? 0 : N;
  f.keys = Array<T>({S, H, N + R});
  f.values = columns_of(by_head, value_first, V);
  for (std::int64_t h = 0; h < H; ++h) {
    add_head(f.keys, h, columns_of(head_of(by_head, h), value_first == 0 ? V : 0, N));
    if (!run.fault("P-mla-no-kr")) add_head(f.keys, h, k_r, N);
  }
}

// Queries against the latents themselves: W_K moves to the query, W_V behind the softmax.
template <class T>
void absorb(Run<T>& run, MlaForward<T>& f, const Array<T>& latent, const Array<T>& k_r,
            const Mla& m) {
  const std::int64_t C = latent.width();
  Array<T> absorbed({f.queries.shape[0], m.heads, C + m.rotary});
  for (std::int64_t h = 0; h < m.heads; ++h) {
    const Array<T> q = head_of(f.queries, h);
    add_head(absorbed, h, times(run, columns_of(q, 0, m.nope), key_map(run, m, h)));
    add_head(absorbed, h, columns_of(q, m.nope, m.rotary), C);
  }
  run.store(absorbed);
  f.queries = std::move(absorbed);
  f.keys = Array<T>({latent.shape[0], 1, C + m.rotary});
  add_head(f.keys, 0, latent);
  if (!run.fault("P-mla-no-kr")) add_head(f.keys, 0, k_r, C);
  f.values = latent.as({latent.shape[0], 1, C});
}

template <class T>
void attend(Run<T>& run, MlaForward<T>& f, const Mla& m, const MlaRows<T>& rows) {
  const std::int64_t all = f.queries.shape[0], H = m.heads, V = m.value;
  const std::int64_t R = all / rows.batch, S = f.keys.shape[0] / rows.batch;
  f.attn_out = Array<T>({all, H, V});
  for (std::int64_t b = 0; b < rows.batch; ++b) {
    const std::vector<Keys> keys(rows.keys.begin() + b * R, rows.keys.begin() + (b + 1) * R);
    f.attended.push_back(attention(run, rows_of(f.queries, b * R, R), rows_of(f.keys, b * S, S),
                                   rows_of(f.values, b * S, S), scale_of(run, m), keys));
    const Array<T>& o = f.attended.back().o;
    if (!m.absorb) {
      put_rows(f.attn_out, b * R, o);
      continue;
    }
    Array<T> out({R, H, V});
    for (std::int64_t h = 0; h < H; ++h)
      add_head(out, h, times_transposed(run, head_of(o, h), value_map(run, m, h)));
    run.store(out);
    put_rows(f.attn_out, b * R, out);
  }
  f.attn_out = f.attn_out.as({all, H * V});
}

template <class T>
void gate_and_project(Run<T>& run, MlaForward<T>& f, const Array<T>& x, const Mla& m) {
  f.gated_out = f.attn_out;
  if (m.gate) {
    f.gate_logit = linear(run, gate_input(run, x), m.prefix + "g_proj");
    f.gate = f.gate_logit;
    for (T& g : f.gate.data) g = gate_value(run, g);
    run.store(f.gate);
    const bool late = run.fault("P-mla-gate-late");
    for (std::int64_t i = 0; i < f.gate.count() && !late; ++i) f.gated_out[i] *= f.gate[i];
    run.store(f.gated_out);
  }
  f.y = linear(run, f.gated_out, m.prefix + "o_proj");
  if (m.gate && run.fault("P-mla-gate-late"))
    for (std::int64_t r = 0; r < f.y.rows(); ++r)
      for (std::int64_t d = 0; d < f.y.width(); ++d)
        f.y[r * f.y.width() + d] *= f.gate[r * f.gate.width() + d % f.gate.width()];
}

}  // namespace

double Mla::softmax_scale() const {
  if (scale != 0) return scale;
  return rope.yarn.softmax_factor() / std::sqrt(static_cast<double>(nope + rotary));
}

template <class T>
MlaForward<T> mla(Run<T>& run, const Array<T>& x, const Mla& m, const MlaRows<T>& rows) {
  if (std::ssize(rows.keys) != x.rows()) throw Failure("one set of keys a row");
  MlaForward<T> f;
  if (m.q_lora) {
    f.q_a = linear(run, x, m.prefix + "q_a_proj");
    f.q_latent = latent_norm(run, f.q_a, "q_a_layernorm", m);
  }
  f.q = m.q_lora ? linear(run, f.q_latent, m.prefix + "q_b_proj")
                 : linear(run, x, m.prefix + "q_proj");
  f.kv_a = linear(run, x, m.prefix + "kv_a_proj_with_mqa");
  const std::int64_t C = f.kv_a.width() - m.rotary;
  const Array<T> c = columns_of(f.kv_a, 0, C);
  f.kv_latent = latent_norm(run, c, "kv_a_layernorm", m);
  Array<T> k_r = shared_key(run, f.kv_a, m).as({x.rows(), 1, m.rotary});
  f.queries = f.q.as({x.rows(), m.heads, m.nope + m.rotary});
  if (turns_of(run, m) != Rope::Pairs::None && !rows.turns.cos.shape.empty()) {
    rotate(f.queries, m.nope, rows.turns, turns_of(run, m), Sense::Forward);
    rotate(k_r, 0, rows.turns, m.rope.pairs, Sense::Forward);
    run.store(f.queries);
    run.store(k_r);
  }
  const Array<T> latents = with_cached(rows, f.kv_latent);
  const Array<T> keys = behind(rows.cached_k_r, k_r.as({x.rows(), m.rotary}), rows);
  m.absorb ? absorb(run, f, latents, keys, m) : expand(run, f, latents, keys, m);
  attend(run, f, m, rows);
  gate_and_project(run, f, x, m);
  return f;
}

#define PARITY_INSTANTIATE(T) \
  template MlaForward<T> mla(Run<T>&, const Array<T>&, const Mla&, const MlaRows<T>&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
