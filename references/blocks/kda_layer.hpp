// The layer around KDA (kda.md §5): projections, short convolutions, gate, recurrence, gated norm,
// output projection.
//   q,k,v = silu(conv(x W));  g = gate(x f_a f_b or x f);  beta = scale sigmoid(x b_proj)
//   y = (rms_norm(kda(l2norm q, l2norm k, v, g, beta)) sigmoid(x g_a g_b or x g_proj)) o_proj
// Parameters below `prefix`, by the released names (k3.md §6.2): q_proj k_proj v_proj
// {q,k,v}_conv1d f_a_proj f_b_proj (f_proj) b_proj g_proj (g_a_proj g_b_proj) A_log dt_bias
// o_norm.weight o_proj.
#pragma once

#include <string>

#include "references/blocks/kda.hpp"

namespace parity::net {

struct KdaLayer {
  std::string prefix = {};
  std::int64_t H = 1, HV = 1, K = 1, V = 1;
  bool lower = true;  // the gate
  double bound = -5;
  bool full_forget = false;  // f_proj in place of f_a_proj, f_b_proj
  bool low_output = false;   // g_a_proj, g_b_proj in place of g_proj
  double beta_scale = 1;
  double l2_eps = 1e-6, norm_eps = 1e-5;
  std::vector<std::int64_t> starts = {};

  std::string name(const char* part) const { return prefix + part; }
};

template <class T>
struct KdaStates {
  Array<T> conv;       // [N,C,W], channels of q, k and v
  Array<T> recurrent;  // [N,HV,K,V]
};

// What the backward needs of the forward.
template <class T>
struct KdaTrace {
  Array<T> projected[3];  // of q, k, v, before the convolution
  Array<T> convolved[3];
  Array<T> raw_gate, beta_logit, gate;  // gate: of the output
  KdaInputs<T> core;
  Array<T> o;
  Array<T> normed;
  KdaStates<T> states;
  Array<T> y;
};

// x [R,D]; `before`: carried states of a decode step, or null.
template <class T>
KdaTrace<T> kda_layer(Run<T>&, const Array<T>& x, const KdaLayer&,
                      const KdaStates<T>* before = nullptr);
template <class T>
Array<T> kda_layer_backward(Run<T>&, const Array<T>& x, const KdaTrace<T>&, const Array<T>& dy,
                            const KdaLayer&);

}  // namespace parity::net
