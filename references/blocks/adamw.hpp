// AdamW (Loshchilov and Hutter, arXiv 1711.05101) as torch.optim.AdamW steps it:
//   p *= 1 - lr decay;  m += (1 - b1)(g - m);  v = b2 v + (1 - b2) g^2;
//   p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
// A parameter without a gradient is left alone: no decay, no moments.
#pragma once

#include <map>
#include <string>

#include "references/blocks/array.hpp"

namespace parity::net {

struct AdamW {
  double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1;
};

template <class T>
struct Moments {
  Array<T> first, second;
};

// Step t (from 1) of one parameter; moments begin at zero.
template <class T>
void adamw_step(Array<T>& parameter, const Array<T>& gradient, Moments<T>&, int t, const AdamW&);

}  // namespace parity::net
