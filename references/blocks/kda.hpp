// The recurrence of KDA token by token at any precision (kda.md §1, §3), for layers that contain
// it. The op kda has the same with companions and at the contracts of chunked kernels
// (references/kda).
//   S~ = diag(e^g) S;  u = beta (v - S~^T k);  S = S~ + k u^T;  o = scale S^T q
//   D = dS + scale q do^T;  du = D^T k;  dbeta = du . (v - S~^T k);  dv = beta du;  dk = D u - S~
//   (beta du); dS~ = D - k (beta du)^T;  dg_i = sum_v dS~_iv S~_iv;  dS' = diag(e^g) dS~;  dq =
//   scale S do
#pragma once

#include "references/blocks/run.hpp"

namespace parity::net {

// q, k [R,H,K], v [R,HV,V], g [R,HV,K] (natural log), beta [R,HV]; value head hv reads head hv /
// (HV/H) of q and k.
template <class T>
struct KdaInputs {
  Array<T> q, k, v, g, beta;
  double scale = 1;
  std::vector<std::int64_t> starts = {};  // N + 1 rows
};
template <class T>
struct KdaResult {
  Array<T> o;      // [R,HV,V]
  Array<T> state;  // [N,HV,K,V]
};
template <class T>
KdaResult<T> kda_recurrence(Run<T>&, const KdaInputs<T>&, const Array<T>* initial = nullptr);
template <class T>
struct KdaGradients {
  Array<T> q, k, v, g, beta;
};
template <class T>
KdaGradients<T> kda_recurrence_backward(Run<T>&, const KdaInputs<T>&, const Array<T>& d_o);

// x / sqrt(sum x^2 + eps) over the last axis; dx = r (dy - y (y . dy)).
template <class T>
Array<T> l2_norm(Run<T>&, const Array<T>& x, double eps);
template <class T>
Array<T> l2_norm_backward(Run<T>&, const Array<T>& x, const Array<T>& dy, double eps);

// g[R,HV,K] from the raw gate and two parameters, A_log [HV] and dt_bias [HV*K] (kda.md §2.1):
//   softplus   g = -exp(A_log) softplus(x + dt_bias)
//   lower      g = bound sigmoid(exp(A_log) (x + dt_bias))
struct KdaGate {
  bool lower = false;
  double bound = -5;
  std::string A_log, dt_bias;
};
template <class T>
Array<T> kda_gate(Run<T>&, const Array<T>& raw, const KdaGate&);
template <class T>
Array<T> kda_gate_backward(Run<T>&, const Array<T>& raw, const Array<T>& dg, const KdaGate&);

// y = rms_norm(o; weight) sigmoid(gate), over the last axis, wide until the end (kda.md §5.2).
template <class T>
Array<T> gated_norm(Run<T>&, const Array<T>& o, const Array<T>& gate, const std::string& weight,
                    double eps);
template <class T>
struct GatedNormGradients {
  Array<T> o, gate;
};
template <class T>
GatedNormGradients<T> gated_norm_backward(Run<T>&, const Array<T>& o, const Array<T>& gate,
                                          const Array<T>& dy, const std::string& weight,
                                          double eps);

}  // namespace parity::net
