// What a decoder case is: its sizes and options as the block's configuration, its parameters and
// tensors.
//   sizes    B sequences of T tokens, D model width, V vocabulary, L layers
//   options  full       layers with MLA, 0-based ("3+7"); all: every layer (attn_res_stack's usual)
//            block      layers of a block of attention residuals (0: plain residual stream)
//            dense      first layers with a dense feed-forward (1); ffn: its width
//            heads; kda (head width), conv (4 taps); gate=softplus, forget, output: of KDA layers
//            (references/kda_layer.cpp) ql (0: no query latent), kl, nope, rope, vd; mla_gate=1;
//            latent_eps; rotary=interleaved|half, theta experts, topk, ehid, latent (0: none),
//            shared (width, 0: none); act=situ|silu; score, renorm, scale, groups, top_groups: of
//            the router (blocks/router.hpp) eps (1e-5), situ_beta (4), situ_linear_beta (25) loss=1
//            labels are given, loss = mean cross entropy over those that are not -100; shift=1:
//            against the next token steps      AdamW steps (lr, beta1, beta2, adam_eps, decay);
//            balance: coefficient of the sign rule before each empty=none an expert without a token
//            has no gradient, and is not stepped taps=1, order=1
//            isolated=1 every layer by itself, on the truth's stream (decoder/isolated.hpp)
//            replay=1   the choice of experts is given as "ids/layer<i>": the truth's own,
//            and the scores on which each makes its own choice are compared
//            three=1    the parity model's passes: text (size S), vision, and both; loss=1: of the
//            next tokens in the pass over both, but images
#pragma once

#include <string>
#include <vector>

#include "harness/registry.hpp"
#include "references/blocks/decoder.hpp"

namespace parity::net {

Decoder decoder_config(const Case&);
std::vector<TensorSpec> decoder_parameters(const Case&);  // "params/<name>", in state-dict order
std::vector<TensorSpec> decoder_inputs(const Case&);
std::vector<TensorSpec> decoder_outputs(const Case&);
bool decoder_derive(const Case&, Tensor&);  // grid_thw of the images
std::string decoder_refuses(const Case&);
std::vector<FaultDef> decoder_faults(bool whole);  // whole: of attention and mixtures too
ImportedCase decoder_import(const StoredCase&);

bool has_images(const Case&);
Case vision_case(const Case&);  // of its tower
// The same decoder over other tokens.
Case with_tokens(const Case&, std::int64_t T);

bool decoder_mixes(const Case&, std::int64_t layer);  // whether its feed-forward is a mixture
std::vector<std::int64_t> layer_list(const Case&);    // of option full

}  // namespace parity::net
