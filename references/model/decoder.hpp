// The decoder in eager LibTorch, any dtype and device: parameters by their released names below
// `prefix` (k3.md §4, §6.1, §6.2). Written apart from references/blocks/decoder: the read of
// attention residuals as one softmax over a stacked bank, everything differentiated by autograd.
// Norms, reads, softmax and loss are f32, or the input's dtype where that is wider.
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>
#include <vector>

#include "references/model/kda_layer.hpp"
#include "references/model/mla.hpp"
#include "references/model/moe.hpp"

namespace parity::model {

// y = sum_n softmax_n(rms(V_n; norm) . proj) V_n over the bank's entries [R,N,D], then the prefix
// [R,D].
at::Tensor attn_res_read(const at::Tensor& bank, const at::Tensor& prefix, const at::Tensor& norm,
                         const at::Tensor& proj, double eps, bool reversed = false);

struct DecoderConfig {
  std::string prefix = {};
  std::vector<bool> full = {};  // by layer: MLA, else KDA
  std::int64_t dense = 0;       // first layers with a dense feed-forward
  std::int64_t block = 0;  // layers of a block of attention residuals; 0: plain residual stream
  double eps = 1e-5;
  UnitConfig unit = {};  // of the dense layers
  MlaConfig mla = {};    // prefixes are filled in by layer
  KdaLayerConfig kda = {};
  MoeConfig moe = {};
  std::int64_t misread = -1;  // a fault: this layer's second read weighs its sources in reverse
};

// The residual stream between two layers: entries of closed blocks [R,N,D], the running sum [R,D].
struct Stream {
  at::Tensor bank, prefix;
};
// What a layer computes on the way.
struct LayerTrace {
  at::Tensor attn_read, attn, ffn_read;
  MoeOutput moe;  // undefined tensors where the feed-forward is dense
};
Stream decoder_layer(const Stream& before, const Named& params, const DecoderConfig&,
                     std::int64_t layer, std::int64_t batch, LayerTrace* trace = nullptr);
// Input "ids/layer<i>", where it is among the parameters, replaces the layer's choice of experts.

struct DecoderOutput {
  at::Tensor logits, output_read;  // [R,V], [R,D]
  std::vector<Stream> after;       // each layer
  std::vector<LayerTrace> traces;
};
// tokens [B,T]
at::Tensor embed(const at::Tensor& tokens, const Named& params, const DecoderConfig&);
// Before the first layer: embeddings [B,T,D] and no closed block.
Stream stream_of(const at::Tensor& embeddings);
struct Head {
  at::Tensor output_read, logits;  // [R,D], [R,V]
};
Head head(const Stream& last, const Named& params, const DecoderConfig&);
DecoderOutput decoder(const at::Tensor& embeddings, const Named& params, const DecoderConfig&);

// Mean cross entropy of logits [R,V] over labels [R] that are not -100.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace parity::model
