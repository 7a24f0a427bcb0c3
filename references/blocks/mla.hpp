// Multi-head latent attention with an optional output gate (k3.md §2; DeepSeek-V2, arXiv
// 2405.04434).
//
//   a = x Wqa^T, at = rms(a), q = at Wqb^T           (without q_lora: q = x Wq^T)   [rows,H,N+R]
//   ckv = x Wkva^T = [c | k_r],  ct = rms(c)         k_r is shared by the heads and not normed
//   [k_n | v] = ct Wkvb^T                            [rows,H,N+V]
//   o = softmax(scale [q_n|q_r].[k_n|k_r]) v,        scale (N+R)^(-1/2)
//   y = (o sigmoid(x Wg^T)) Wo^T
//   absorbed (decode): q_n W_K against ct, u = P ct, o = u W_V^T: the same by associativity
// Parameters by the released names (k3.md §6.2) behind a prefix.
#pragma once

#include <string>
#include <vector>

#include "references/blocks/attention.hpp"
#include "references/blocks/rope.hpp"

namespace parity::net {

struct Mla {
  std::string prefix = {};  // "model.layers.3.self_attn."
  std::int64_t heads = 1, nope = 0, rotary = 0, value = 0;
  bool q_lora = true, gate = true, absorb = false;
  double eps = 1e-6;  // of the latent norms: 1e-6 released, 1e-5 torchtitan
  double scale = 0;   // 0: (nope + rotary)^(-1/2), times YaRN's factor
  Rope rope = {};     // pairs None: K3, no rotation

  double softmax_scale() const;
};

// What the rows of x are: `batch` sequences of T tokens, each behind P cached ones.
//   keys      by row, counted within the row's own sequence of P + T keys
//   turns     by row; empty without rotation
template <class T>
struct MlaRows {
  std::int64_t batch = 1, past = 0;
  std::vector<Keys> keys = {};
  Turns<T> turns = {};
  Array<T> cached_latent = {}, cached_k_r = {};  // [batch*P, C], [batch*P, R]
};

// y and what the backward reads; also the intermediates that goldens hold.
template <class T>
struct MlaForward {
  Array<T> q_a, q_latent, q;          // [rows,Q], [rows,Q], [rows,H(N+R)] before rotation
  Array<T> kv_a, kv_latent, kv;       // [rows,C+R], [rows,C], [batch*S,H(N+V)]
  Array<T> queries, keys, values;     // what the softmax sees; absorbed: one key head of C + R
  std::vector<Attended<T>> attended;  // by sequence
  Array<T> attn_out, gate_logit, gate, gated_out;  // [rows,HV]
  Array<T> y;                                      // [rows,D]
};
template <class T>
MlaForward<T> mla(Run<T>&, const Array<T>& x, const Mla&, const MlaRows<T>&);

// Parameters' gradients are added to the run; `of` holds those of the forward's intermediates.
template <class T>
struct MlaGradients {
  Array<T> x, cached_latent, cached_k_r;
  MlaForward<T> of;
};
template <class T>
MlaGradients<T> mla_backward(Run<T>&, const Array<T>& x, const Array<T>& dy, const MlaForward<T>&,
                             const Mla&, const MlaRows<T>&);

}  // namespace parity::net
