// Gate, beta and norm in f32 as the kernels compute them (kda.md §2), forward and backward.
#pragma once

#include "references/kda/chunk.hpp"

namespace parity::kda {

struct Narrow {
  Floats32 q, k, v, g, beta, A_log, dt_bias;  // as given, in f32
  Floats32 rstd_q, rstd_k;
};

// Gradients of whole tensors in f32, by the layouts of Setup; q and k summed over their value
// heads.
struct WideGradients {
  Floats32 q, k, v, g, beta, h0, g_raw, A_log, dt_bias, beta_logit;
};

Wide activate_base(Engine&, const Inputs&, Narrow&);
void finish_base(Engine&, const Narrow&, const Wide&, WideGradients&);

}  // namespace parity::kda
