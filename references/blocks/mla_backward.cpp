#include <tuple>

#include "references/blocks/mla_parts.hpp"

namespace parity::net {
namespace {

// do = do' G, dG_logit = do' o G (1 - G); do' = dy Wo.
template <class T>
void gate_backward(Run<T>& run, MlaGradients<T>& d, const Array<T>& x, const MlaForward<T>& f,
                   const Mla& m) {
  d.of.attn_out = d.of.gated_out;
  if (!m.gate) return;
  d.of.gate_logit = d.of.gated_out;
  for (std::int64_t i = 0; i < f.gate.count(); ++i) {
    const T slope = f.gate[i] * sigmoid(-f.gate_logit[i]);
    d.of.gate_logit[i] *= f.attn_out[i] * slope;
    d.of.attn_out[i] *= f.gate[i];
  }
  run.store(d.of.gate_logit);
  run.store(d.of.attn_out);
  add(d.x, linear_backward(run, x, d.of.gate_logit, m.prefix + "g_proj"));
}

// Of the output of one sequence: of u where W_V was absorbed.
template <class T>
Array<T> before_values(Run<T>& run, const Array<T>& d_o, const Attended<T>& a, const Mla& m,
                       Array<T>& dw) {
  if (!m.absorb) return d_o;
  const std::int64_t per_head = m.nope + m.value;
  Array<T> d_u(a.o.shape);
  for (std::int64_t h = 0; h < m.heads; ++h) {
    const Array<T> d_h = head_of(d_o, h);
    add_head(d_u, h, times(run, d_h, value_map(run, m, h)));
    const Array<T> dw_h = transposed_times(run, d_h, head_of(a.o, h));
    for (std::int64_t i = 0; i < dw_h.count(); ++i)
      dw[(h * per_head + m.nope) * dw.width() + i] += dw_h[i];
  }
  run.store(d_u);
  return d_u;
}

// Gradients of what the softmax saw, all sequences.
template <class T>
void attend_backward(Run<T>& run, MlaGradients<T>& d, const MlaForward<T>& f, const Mla& m,
                     const MlaRows<T>& rows, Array<T>& dw) {
  const std::int64_t all = f.queries.shape[0], H = m.heads;
  const std::int64_t R = all / rows.batch, S = f.keys.shape[0] / rows.batch;
  const Array<T> d_o = d.of.attn_out.as({all, H, m.value});
  const Array<T> delta = wrong_delta(run, f, d.of.gated_out, m);
  d.of.queries = Array<T>(f.queries.shape);
  d.of.keys = Array<T>(f.keys.shape);
  d.of.values = Array<T>(f.values.shape);
  for (std::int64_t b = 0; b < rows.batch; ++b) {
    const Attended<T>& a = f.attended[static_cast<std::size_t>(b)];
    const std::vector<Keys> keys(rows.keys.begin() + b * R, rows.keys.begin() + (b + 1) * R);
    const Array<T> part = !delta.shape.empty() ? rows_of(delta, b * R, R) : Array<T>{};
    const AttentionGradients<T> g = attention_backward(
        run, rows_of(f.queries, b * R, R), rows_of(f.keys, b * S, S), rows_of(f.values, b * S, S),
        a, before_values(run, rows_of(d_o, b * R, R), a, m, dw), scale_of(run, m), keys,
        part.shape.empty() ? nullptr : &part);
    put_rows(d.of.queries, b * R, g.q);
    put_rows(d.of.keys, b * S, g.k);
    put_rows(d.of.values, b * S, g.v);
  }
}

// dk_r sums over the heads, which share it.
template <class T>
Array<T> shared_key_gradient(Run<T>& run, const Array<T>& dk, std::int64_t first, const Mla& m) {
  const std::int64_t S = dk.shape[0], H = dk.shape[1], D = dk.shape[2];
  Array<T> sum({S, m.rotary});
  std::vector<T> terms(static_cast<std::size_t>(H));
  for (std::int64_t s = 0; s < S; ++s)
    for (std::int64_t i = 0; i < m.rotary; ++i) {
      for (std::int64_t h = 0; h < H; ++h)
        terms[static_cast<std::size_t>(h)] = dk[(s * H + h) * D + first + i];
      sum[s * m.rotary + i] = run.fault("P-mla-dkr-head") ? terms.front() : run.sum(terms);
      if (run.fault("P-mla-dkr-mean")) sum[s * m.rotary + i] /= static_cast<T>(m.heads);
    }
  run.store(sum);
  return sum;
}

// From the queries that the softmax saw to q, by way of W_K where it was absorbed.
template <class T>
Array<T> query_gradient(Run<T>& run, const MlaGradients<T>& d, const MlaForward<T>& f, const Mla& m,
                        const MlaRows<T>& rows, Array<T>& dw) {
  const std::int64_t all = d.of.queries.shape[0];
  Array<T> dq = d.of.queries;
  if (m.absorb) {
    const std::int64_t C = d.of.queries.shape[2] - m.rotary;
    dq = Array<T>({all, m.heads, m.nope + m.rotary});
    const Array<T> q = f.q.as(dq.shape);
    for (std::int64_t h = 0; h < m.heads; ++h) {
      const Array<T> d_h = head_of(d.of.queries, h), d_c = columns_of(d_h, 0, C);
      add_head(dq, h, times_transposed(run, d_c, key_map(run, m, h)));
      add_head(dq, h, columns_of(d_h, C, m.rotary), m.nope);
      const Array<T> dw_h = transposed_times(run, columns_of(head_of(q, h), 0, m.nope), d_c);
      for (std::int64_t i = 0; i < dw_h.count(); ++i) dw[h * (m.nope + m.value) * C + i] += dw_h[i];
    }
    run.store(dq);
  }
  if (turns_of(run, m) != Rope::Pairs::None && !rows.turns.cos.shape.empty()) {
    rotate(dq, m.nope, rows.turns, turns_of(run, m), Sense::Back);
    run.store(dq);
  }
  return dq.as({all, m.heads * (m.nope + m.rotary)});
}

// Gradients of all latents, cached ones too.
template <class T>
Array<T> latent_gradient(Run<T>& run, MlaGradients<T>& d, const MlaForward<T>& f, const Mla& m,
                         const Array<T>& latents, const Array<T>& dw) {
  const std::int64_t S = f.keys.shape[0];
  if (m.absorb) {
    run.param_grad(m.prefix + "kv_b_proj.weight", dw);
    Array<T> d_latent = columns_of(d.of.keys, 0, latents.width()).as({S, latents.width()});
    add(d_latent, d.of.values.as(d_latent.shape));
    run.store(d_latent);
    return d_latent;
  }
  d.of.kv = Array<T>({S, m.heads, m.nope + m.value});
  add_columns(d.of.kv, 0, columns_of(d.of.keys, 0, m.nope));
  add_columns(d.of.kv, m.nope, d.of.values);
  d.of.kv = d.of.kv.as({S, m.heads * (m.nope + m.value)});
  return linear_backward(run, latents, d.of.kv, m.prefix + "kv_b_proj");
}

// The rows of all sequences apart: cached ones, and new ones.
template <class T>
std::pair<Array<T>, Array<T>> apart(const Array<T>& all, const MlaRows<T>& rows) {
  const std::int64_t S = all.shape[0] / rows.batch, fresh = S - rows.past;
  std::pair<Array<T>, Array<T>> parts{Array<T>({rows.batch * rows.past, all.width()}),
                                      Array<T>({rows.batch * fresh, all.width()})};
  for (std::int64_t b = 0; b < rows.batch; ++b) {
    put_rows(parts.first, b * rows.past, rows_of(all, b * S, rows.past));
    put_rows(parts.second, b * fresh, rows_of(all, b * S + rows.past, fresh));
  }
  return parts;
}

template <class T>
Array<T> norm_backward(Run<T>& run, const Array<T>& a, const Array<T>& dy, const std::string& name,
                       const Mla& m) {
  if (omits_norm(run, name)) return dy;
  return rms_norm_backward(run, a, dy, m.prefix + name + ".weight", latent(run, m));
}

}  // namespace

template <class T>
MlaGradients<T> mla_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy,
                             const MlaForward<T>& f, const Mla& m, const MlaRows<T>& rows) {
  MlaGradients<T> d;
  d.x = Array<T>(x.shape);
  d.of.gated_out = linear_backward(run, f.gated_out, dy, m.prefix + "o_proj");
  gate_backward(run, d, x, f, m);
  const std::int64_t C = f.kv_latent.width();
  const Array<T> latents =
      m.absorb ? f.values.as({f.values.shape[0], C}) : with_cached(rows, f.kv_latent);
  Array<T> dw = m.absorb ? Array<T>(run.param(m.prefix + "kv_b_proj.weight").shape) : Array<T>{};
  attend_backward(run, d, f, m, rows, dw);

  d.of.q = query_gradient(run, d, f, m, rows, dw);
  if (m.q_lora) {
    d.of.q_latent = linear_backward(run, f.q_latent, d.of.q, m.prefix + "q_b_proj");
    d.of.q_a = norm_backward(run, f.q_a, d.of.q_latent, "q_a_layernorm", m);
    add(d.x, linear_backward(run, x, d.of.q_a, m.prefix + "q_a_proj"));
  } else {
    add(d.x, linear_backward(run, x, d.of.q, m.prefix + "q_proj"));
  }

  Array<T> dk_r;
  std::tie(d.cached_k_r, dk_r) =
      apart(shared_key_gradient(run, d.of.keys, m.absorb ? C : m.nope, m), rows);
  if (!rows.turns.cos.shape.empty() && m.rope.pairs != Rope::Pairs::None) {
    dk_r = dk_r.as({x.rows(), 1, m.rotary});
    rotate(dk_r, 0, rows.turns, m.rope.pairs, Sense::Back);
    run.store(dk_r);
  }
  std::tie(d.cached_latent, d.of.kv_latent) =
      apart(latent_gradient(run, d, f, m, latents, dw), rows);
  d.of.kv_a = Array<T>(f.kv_a.shape);
  add_columns(d.of.kv_a, 0,
              norm_backward(run, columns_of(f.kv_a, 0, C), d.of.kv_latent, "kv_a_layernorm", m));
  add_columns(d.of.kv_a, C, dk_r.as({x.rows(), m.rotary}));
  add(d.x, linear_backward(run, x, d.of.kv_a, m.prefix + "kv_a_proj_with_mqa"));
  run.store(d.x);
  return d;
}

#define PARITY_INSTANTIATE(T)                                                      \
  template MlaGradients<T> mla_backward(Run<T>&, const Array<T>&, const Array<T>&, \
                                        const MlaForward<T>&, const Mla&, const MlaRows<T>&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
