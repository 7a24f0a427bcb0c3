// What an mla case is: its sizes and options as the block's configuration, its tensors.
//   sizes    B sequences of T tokens (T3+1+7: packed documents), D model width, H heads, Q rank of
//            the queries (absent: none), C rank of keys and values, N unrotated, R shared and V
//            value channels of a head, P cached tokens before the new ones (absent: none)
//   options  gate=1         output gate
//            eps            of the latent norms (1e-6)
//            scale          of the logits ((N+R)^-1/2, times YaRN's factor)
//            rope           interleaved, half: by position_ids; angles: interleaved, by rope_angle
//            theta, yarn (factor), original, beta_fast, beta_slow, mscale, mscale_all
//            mask           full: no mask; given: by mask_allowed [B,1,T,S]; else causal by
//            document masked=leak    fully masked rows as an additive mask of the smallest number
//            has them absorb=1       decode form taps=1         intermediates and their gradients
#pragma once

#include <vector>

#include "harness/registry.hpp"
#include "references/blocks/mla.hpp"

namespace parity::net {

struct MlaExtents {
  std::int64_t B = 1, T = 0, D = 0, H = 1, Q = 0, C = 0, N = 0, R = 0, V = 0, P = 0;
  std::vector<std::int64_t> documents = {};
};
MlaExtents mla_extents(const Case&);
Mla mla_config(const Case&);
std::vector<TensorSpec> mla_inputs(const Case&);
std::vector<TensorSpec> mla_outputs(const Case&);
bool mla_derive(const Case&, Tensor&);
std::string mla_refuses(const Case&);
ImportedCase mla_import(const StoredCase&);

}  // namespace parity::net
