// One read of block attention residuals (k3.md §4): a softmax over sources, whose keys are
// RMS-normalised and whose values are raw. Sources: the bank's entries, then the prefix.
//   y = sum_n pi_n V_n;  pi = softmax_n(K_n . q);  K_n = V_n r_n;  r_n = 1/sqrt(mean V_n^2 + eps);
//   q = norm * proj c_n = V_n . dy;  ds = pi (c - pi . c);  dq = sum ds_n K_n;  dnorm = proj dq;
//   dproj = norm dq; dV_n = pi_n dy + r_n (dK_n - K_n mean(dK_n K_n)),  dK_n = ds_n q
#pragma once

#include <string>

#include "references/blocks/run.hpp"

namespace parity::net {

struct AttnRes {
  std::string norm, proj;  // parameters: [D], [1,D]
  double eps = 1e-5;
};

template <class T>
struct AttnResRead {
  Array<T> y;      // [T,D]
  Array<T> probs;  // [T,N]
};
// bank [T,N-1,D], prefix [T,D]
template <class T>
AttnResRead<T> attn_res(Run<T>&, const Array<T>& bank, const Array<T>& prefix, const AttnRes&);

template <class T>
struct AttnResGradients {
  Array<T> bank, prefix;
};
template <class T>
AttnResGradients<T> attn_res_backward(Run<T>&, const Array<T>& bank, const Array<T>& prefix,
                                      const Array<T>& dy, const AttnRes&);

}  // namespace parity::net
