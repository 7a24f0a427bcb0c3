// Gated multi-head latent attention in eager LibTorch, any dtype and device: parameters by
// state-dict name below `prefix` (k3.md §6.2). Written differently from references/blocks: heads as
// a batch axis, masks as tensors, rotation by concatenation, everything differentiated by autograd.
// Norms, logits and the softmax are wide (f32, or the input's dtype where that is wider).
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>

namespace parity::model {

struct MlaConfig {
  std::string prefix = {};
  std::int64_t heads = 1, nope = 0, rotary = 0, value = 0;
  double eps = 1e-6, scale = 1;
  bool absorb = false;
  bool interleaved = true;        // pairs of the rotation
  bool leak = false;              // masks are added, so that fully masked rows stay uniform
  at::Tensor allowed = {};        // bool, [B or 1, 1, T, S]
  at::Tensor cos = {}, sin = {};  // [B or 1, T, rotary / 2]; undefined: no rotation
  at::Tensor cached_latent = {}, cached_k_r = {};  // [B,P,C], [B,P,rotary]
};

// x [B,T,D] -> [B,T,D]; low-rank queries and the gate where their parameters are there.
at::Tensor mla(const at::Tensor& x, const std::map<std::string, at::Tensor>& params,
               const MlaConfig&);

}  // namespace parity::model
