// A decoder: attention (MLA or KDA) and feed-forward (dense or mixture of experts) layers on a
// plain residual stream, or on block attention residuals (k3.md §4, §6.1):
//   x = read(B, p) if the bank B is not empty, else p;  layer l opens a block (l mod S = 0): p
//   joins B a = attention(rms(x));  p = a if it opened, else p + a;  y = read(B, p);  p = p +
//   ffn(rms(y));   h = read_out(B, p)
// Parameters by the released names (k3.md §6.2):
// model.layers.<i>.{self_attn,mlp,block_sparse_moe,...}.
#pragma once

#include <string>
#include <vector>

#include "references/blocks/attn_res.hpp"
#include "references/blocks/kda_layer.hpp"
#include "references/blocks/mla.hpp"
#include "references/blocks/moe.hpp"

namespace parity::net {

struct Decoder {
  std::vector<bool> full = {};  // by layer: MLA, else KDA
  std::int64_t dense = 0;       // the first layers' feed-forward is dense
  std::int64_t block = 0;  // layers of a block of attention residuals; 0: plain residual stream
  double eps = 1e-5;       // of the norms and reads
  Unit unit = {};          // of the dense layers
  Mla mla = {};            // prefixes are filled in by layer
  KdaLayer kda = {};
  Moe moe = {};
  bool replay = false;  // the choice of experts is given: inputs "ids/layer<i>"
  std::int64_t batch = 1, tokens = 1;

  bool residual_reads() const { return block > 0; }
  static std::string layer(std::int64_t l) { return "model.layers." + std::to_string(l) + "."; }
};

// Intermediates of one layer.
template <class T>
struct DecoderLayer {
  Array<T> before;                  // the bank as the attention's read finds it, [R,n,D]
  Array<T> bank;                    // after the layer
  Array<T> entering;                // p before
  Array<T> attn_read, attn_normed;  // x, rms(x)
  MlaForward<T> mla;
  KdaTrace<T> kda;
  Array<T> attn;                  // a
  Array<T> middle;                // p between
  Array<T> ffn_read, ffn_normed;  // y, rms(y)
  MoeLayer<T> moe;
  Array<T> prefix;  // p after
};
// The residual stream between two layers, or its gradient: the bank of closed blocks [R,n,D], the
// running sum [R,D].
template <class T>
struct Stream {
  Array<T> bank, prefix;
};
template <class T>
DecoderLayer<T> decoder_layer(Run<T>&, const Stream<T>& before, const Decoder&, std::int64_t l,
                              const MlaRows<T>&);
template <class T>
struct DecoderHead {
  Array<T> output_read;  // h
  Array<T> normed, logits;
};
template <class T>
DecoderHead<T> decoder_head(Run<T>&, const Stream<T>& last, const Decoder&);

template <class T>
struct DecoderForward : DecoderHead<T> {
  std::vector<DecoderLayer<T>> layers;
  MlaRows<T> rows;
};
template <class T>
MlaRows<T> decoder_rows(const Decoder&, const Turns<T>&);
// embeddings [R,D] -> logits [R,V]
template <class T>
DecoderForward<T> decoder(Run<T>&, const Array<T>& embeddings, const Decoder&, const Turns<T>&);

// Gradients of the intermediates of the same names; those of parameters are added to the run.
template <class T>
struct DecoderLayerGradients {
  Array<T> attn_read, ffn_read, attn, bank, prefix;
  MoeGradients<T> moe;
};
// `d`: from the gradient of what the layer leaves to that of what it found. The bank's, of the
// layers behind and of this one's second read, is complete where a block opens: a bank that several
// layers pass on is one tensor.
template <class T>
DecoderLayerGradients<T> decoder_layer_backward(Run<T>&, const DecoderLayer<T>&, Stream<T>& d,
                                                const Decoder&, std::int64_t l, const MlaRows<T>&);
// Of the head: the gradient of the last stream, and that of h.
template <class T>
Stream<T> decoder_head_backward(Run<T>&, const Stream<T>& last, const DecoderHead<T>&,
                                const Array<T>& d_logits, const Decoder&, Array<T>& d_output_read);
template <class T>
struct DecoderGradients {
  std::vector<DecoderLayerGradients<T>> layers;
  Array<T> output_read, embeddings;
};
template <class T>
DecoderGradients<T> decoder_backward(Run<T>&, const DecoderForward<T>&, const Array<T>& d_logits,
                                     const Decoder&);

}  // namespace parity::net
