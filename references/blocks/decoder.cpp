#include "references/blocks/decoder.hpp"

#include "references/blocks/layers.hpp"

namespace parity::net {
namespace {

Norm norm_of(const Decoder& d) { return {.eps = d.eps}; }
Mlp dense_of(const Decoder& d, std::int64_t l) {
  const std::string mlp = Decoder::layer(l) + "mlp.";
  return {mlp + "gate_proj", mlp + "up_proj", mlp + "down_proj", d.unit};
}
Moe moe_of(const Decoder& d, std::int64_t l) {
  Moe moe = d.moe;
  moe.prefix = Decoder::layer(l) + "block_sparse_moe.";
  moe.rule.given = d.replay ? "ids/layer" + std::to_string(l) : "";
  return moe;
}
Mla mla_of(const Decoder& d, std::int64_t l) {
  Mla mla = d.mla;
  mla.prefix = Decoder::layer(l) + "self_attn.";
  return mla;
}
KdaLayer kda_of(const Decoder& d, std::int64_t l) {
  KdaLayer kda = d.kda;
  kda.prefix = Decoder::layer(l) + "self_attn.";
  return kda;
}
AttnRes read_of(const Decoder& d, std::int64_t l, const char* which) {
  const std::string name = Decoder::layer(l) + which;
  return {name + "_norm.weight", name + "_proj.weight", d.eps};
}
AttnRes output_read_of(const Decoder& d) {
  return {"model.output_attn_res_norm.weight", "model.output_attn_res_proj.weight", d.eps};
}
constexpr const char *kAttnRead = "self_attention_res", *kFfnRead = "mlp_res";

// The bank with one more entry, [R,n+1,D], and its parts again.
template <class T>
Array<T> appended(const Array<T>& bank, const Array<T>& entry) {
  const std::int64_t R = entry.rows(), D = entry.width(), n = bank.shape[1];
  Array<T> longer({R, n + 1, D});
  for (std::int64_t r = 0; r < R; ++r) {
    std::copy_n(bank.data.begin() + r * n * D, n * D, longer.data.begin() + r * (n + 1) * D);
    std::copy_n(entry.data.begin() + r * D, D, longer.data.begin() + (r * (n + 1) + n) * D);
  }
  return longer;
}
template <class T>
Array<T> entry_of(const Array<T>& bank, std::int64_t n) {
  const std::int64_t R = bank.shape[0], N = bank.shape[1], D = bank.shape[2];
  Array<T> entry({R, D});
  for (std::int64_t r = 0; r < R; ++r)
    std::copy_n(bank.data.begin() + (r * N + n) * D, D, entry.data.begin() + r * D);
  return entry;
}
template <class T>
Array<T> shortened(const Array<T>& bank) {
  const std::int64_t R = bank.shape[0], N = bank.shape[1], D = bank.shape[2];
  Array<T> fewer({R, N - 1, D});
  for (std::int64_t r = 0; r < R; ++r)
    std::copy_n(bank.data.begin() + r * N * D, (N - 1) * D, fewer.data.begin() + r * (N - 1) * D);
  return fewer;
}

bool opens(const Decoder& d, std::int64_t l) { return d.residual_reads() && l % d.block == 0; }

}  // namespace

template <class T>
DecoderLayer<T> decoder_layer(Run<T>& run, const Stream<T>& before, const Decoder& d,
                              std::int64_t l, const MlaRows<T>& rows) {
  const std::string name = Decoder::layer(l);
  DecoderLayer<T> t;
  t.before = t.bank = before.bank;
  const Array<T>& p = t.entering = before.prefix;
  t.attn_read = t.before.shape[1] > 0 ? attn_res(run, t.before, p, read_of(d, l, kAttnRead)).y : p;
  if (opens(d, l)) t.bank = appended(t.before, p);
  t.attn_normed = rms_norm(run, t.attn_read, name + "input_layernorm.weight", norm_of(d));
  if (d.full[static_cast<std::size_t>(l)]) {
    t.mla = mla(run, t.attn_normed, mla_of(d, l), rows);
    t.attn = t.mla.y;
  } else {
    t.kda = kda_layer(run, t.attn_normed, kda_of(d, l));
    t.attn = t.kda.y;
  }
  t.middle = opens(d, l) && !run.fault("P-decoder-prefix-kept") ? t.attn : plus(p, t.attn);
  run.store(t.middle);
  t.ffn_read =
      d.residual_reads() ? attn_res(run, t.bank, t.middle, read_of(d, l, kFfnRead)).y : t.middle;
  t.ffn_normed = rms_norm(run, t.ffn_read, name + "post_attention_layernorm.weight", norm_of(d));
  Array<T> ffn;
  if (l < d.dense) {
    ffn = mlp(run, t.ffn_normed, maybe_wrong(run, dense_of(d, l)));
  } else {
    t.moe = moe(run, t.ffn_normed, moe_of(d, l));
    ffn = t.moe.y;
  }
  t.prefix = plus(t.middle, ffn);
  run.store(t.prefix);
  return t;
}

template <class T>
DecoderHead<T> decoder_head(Run<T>& run, const Stream<T>& last, const Decoder& d) {
  DecoderHead<T> head;
  head.output_read = d.residual_reads() && !run.fault("P-decoder-no-output-read")
                         ? attn_res(run, last.bank, last.prefix, output_read_of(d)).y
                         : last.prefix;
  head.normed = rms_norm(run, head.output_read, "model.norm.weight", norm_of(d));
  head.logits = linear(run, head.normed, "lm_head");
  return head;
}

template <class T>
MlaRows<T> decoder_rows(const Decoder& d, const Turns<T>& turns) {
  MlaRows<T> rows{.batch = d.batch, .turns = turns};
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (const Keys& keys : causal_keys({d.tokens})) rows.keys.push_back(keys);
  return rows;
}

template <class T>
DecoderForward<T> decoder(Run<T>& run, const Array<T>& embeddings, const Decoder& d,
                          const Turns<T>& turns) {
  DecoderForward<T> f;
  f.rows = decoder_rows(d, turns);
  Stream<T> s{Array<T>({embeddings.rows(), 0, embeddings.width()}), embeddings};
  for (std::int64_t l = 0; l < std::ssize(d.full); ++l) {
    f.layers.push_back(decoder_layer(run, s, d, l, f.rows));
    s = {f.layers.back().bank, f.layers.back().prefix};
  }
  static_cast<DecoderHead<T>&>(f) = decoder_head(run, s, d);
  return f;
}

template <class T>
DecoderLayerGradients<T> decoder_layer_backward(Run<T>& run, const DecoderLayer<T>& t,
                                                Stream<T>& d_stream, const Decoder& d,
                                                std::int64_t l, const MlaRows<T>& rows) {
  const std::string name = Decoder::layer(l);
  Array<T>&d_bank = d_stream.bank, &dp = d_stream.prefix;
  DecoderLayerGradients<T> g;
  g.prefix = dp;
  Array<T> d_ffn;
  if (l < d.dense) {
    d_ffn = mlp_backward(run, t.ffn_normed, dp, maybe_wrong(run, dense_of(d, l)));
  } else {
    g.moe = moe_backward(run, t.ffn_normed, t.moe, dp, moe_of(d, l));
    d_ffn = g.moe.x;
  }
  g.ffn_read = rms_norm_backward(run, t.ffn_read, d_ffn, name + "post_attention_layernorm.weight",
                                 norm_of(d));
  if (d.residual_reads()) {
    const AttnResGradients<T> r =
        attn_res_backward(run, t.bank, t.middle, g.ffn_read, read_of(d, l, kFfnRead));
    add(d_bank, r.bank);
    add(dp, r.prefix);
  } else {
    add(dp, g.ffn_read);
  }
  run.store(dp);
  g.attn = dp;
  g.bank = d_bank;
  const Array<T> d_attn =
      d.full[static_cast<std::size_t>(l)]
          ? mla_backward(run, t.attn_normed, g.attn, t.mla, mla_of(d, l), rows).x
          : kda_layer_backward(run, t.attn_normed, t.kda, g.attn, kda_of(d, l));
  g.attn_read =
      rms_norm_backward(run, t.attn_read, d_attn, name + "input_layernorm.weight", norm_of(d));
  const bool first = t.before.shape[1] == 0;
  if (opens(d, l)) {
    const Array<T> entry = entry_of(d_bank, t.before.shape[1]);
    if (!run.fault("P-decoder-prefix-gradient")) dp = Array<T>(dp.shape);  // the prefix began anew
    if (first || !run.fault("P-decoder-bank-detached")) add(dp, entry);
    d_bank = shortened(d_bank);
  }
  if (first) {
    add(dp, g.attn_read);
  } else {
    const AttnResGradients<T> r =
        attn_res_backward(run, t.before, t.entering, g.attn_read, read_of(d, l, kAttnRead));
    add(dp, r.prefix);
    add(d_bank, r.bank);
  }
  run.store(dp);
  if (first) g.attn_read = dp;  // what was read is the prefix itself
  return g;
}

template <class T>
Stream<T> decoder_head_backward(Run<T>& run, const Stream<T>& last, const DecoderHead<T>& head,
                                const Array<T>& d_logits, const Decoder& d,
                                Array<T>& d_output_read) {
  const Array<T> d_normed = linear_backward(run, head.normed, d_logits, "lm_head");
  d_output_read =
      rms_norm_backward(run, head.output_read, d_normed, "model.norm.weight", norm_of(d));
  if (!d.residual_reads()) return {Array<T>(last.bank.shape), d_output_read};
  AttnResGradients<T> r =
      attn_res_backward(run, last.bank, last.prefix, d_output_read, output_read_of(d));
  return {std::move(r.bank), std::move(r.prefix)};
}

template <class T>
DecoderGradients<T> decoder_backward(Run<T>& run, const DecoderForward<T>& f,
                                     const Array<T>& d_logits, const Decoder& d) {
  DecoderGradients<T> all;
  all.layers.resize(f.layers.size());
  const DecoderLayer<T>& last = f.layers.back();
  Stream<T> dp =
      decoder_head_backward(run, {last.bank, last.prefix}, f, d_logits, d, all.output_read);
  std::size_t sharing = f.layers.size();  // layers from here on have another bank
  for (std::size_t l = f.layers.size(); l-- > 0;) {
    const auto number = static_cast<std::int64_t>(l);
    all.layers[l] = decoder_layer_backward(run, f.layers[l], dp, d, number, f.rows);
    if (!opens(d, number)) continue;
    for (std::size_t s = l + 1; s < sharing; ++s) all.layers[s].bank = all.layers[l].bank;
    sharing = l;
  }
  all.embeddings = dp.prefix;
  return all;
}

#define PARITY_INSTANTIATE(T)                                                                     \
  template DecoderLayer<T> decoder_layer(Run<T>&, const Stream<T>&, const Decoder&, std::int64_t, \
                                         const MlaRows<T>&);                                      \
  template DecoderHead<T> decoder_head(Run<T>&, const Stream<T>&, const Decoder&);                \
  template MlaRows<T> decoder_rows(const Decoder&, const Turns<T>&);                              \
  template DecoderForward<T> decoder(Run<T>&, const Array<T>&, const Decoder&, const Turns<T>&);  \
  template DecoderLayerGradients<T> decoder_layer_backward(Run<T>&, const DecoderLayer<T>&,       \
                                                           Stream<T>&, const Decoder&,            \
                                                           std::int64_t, const MlaRows<T>&);      \
  template Stream<T> decoder_head_backward(Run<T>&, const Stream<T>&, const DecoderHead<T>&,      \
                                           const Array<T>&, const Decoder&, Array<T>&);           \
  template DecoderGradients<T> decoder_backward(Run<T>&, const DecoderForward<T>&,                \
                                                const Array<T>&, const Decoder&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
