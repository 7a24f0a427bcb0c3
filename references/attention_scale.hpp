// Magnitude companions of attention (attention_scale.cpp says what they are made of).
#pragma once

#include "references/blocks/attention.hpp"

namespace parity::net {

// One row of the batch: q [T,H,D], k [S,G,D], v [S,G,V], cotangent of o [T,H,V].
struct AttentionHeads {
  const Array<double>&q, &k, &v, &d_o;
  const Attended<double>& attended;
  double scale = 1;
};
struct AttentionScales {
  Array<double> o, lse, q, k, v;  // lse [T,H]; q, k, v: of the gradients
};
AttentionScales attention_scales(const Run<double>&, const AttentionHeads&);

}  // namespace parity::net
