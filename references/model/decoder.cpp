#include "references/model/decoder.hpp"

#include <ATen/ATen.h>

namespace parity::model {
namespace {

using at::Tensor;

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

Tensor normed(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor v = wide(x);
  return (v * at::rsqrt(v.square().mean(-1, true) + eps) * wide(weight)).to(x.scalar_type());
}

struct Layer {
  const Named& params;
  const DecoderConfig& c;
  std::string name;

  Tensor param(const std::string& below) const { return params.at(name + below); }
  Tensor norm(const Tensor& x, const char* which) const {
    return normed(x, param(std::string(which) + ".weight"), c.eps);
  }
  Tensor read(const Stream& s, const std::string& which, bool reversed = false) const {
    return attn_res_read(s.bank, s.prefix, param(which + "_norm.weight"),
                         param(which + "_proj.weight"), c.eps, reversed);
  }
  Tensor dense(const Tensor& x) const {
    const Tensor gate = wide(at::linear(x, param("mlp.gate_proj.weight"))),
                 up = wide(at::linear(x, param("mlp.up_proj.weight")));
    const UnitConfig& u = c.unit;
    const Tensor a = u.beta != 0 ? u.beta * at::tanh(gate / u.beta) : gate,
                 b = u.linear_beta != 0 ? u.linear_beta * at::tanh(up / u.linear_beta) : up;
    return at::linear((a * at::sigmoid(gate) * b).to(x.scalar_type()),
                      param("mlp.down_proj.weight"));
  }
};

Tensor attention(const Layer& l, const Tensor& x, bool full, std::int64_t batch) {
  if (!full) {
    KdaLayerConfig kda = l.c.kda;
    kda.prefix = l.name + "self_attn.";
    return kda_layer(x, l.params, kda);
  }
  MlaConfig m = l.c.mla;
  m.prefix = l.name + "self_attn.";
  return mla(x.view({batch, -1, x.size(-1)}), l.params, m).flatten(0, 1);
}

}  // namespace

Tensor attn_res_read(const Tensor& bank, const Tensor& prefix, const Tensor& norm,
                     const Tensor& proj, double eps, bool reversed) {
  const Tensor values = wide(at::cat({bank, prefix.unsqueeze(1)}, 1));
  const Tensor keys = values * at::rsqrt(values.square().mean(-1, true) + eps);
  const Tensor query = wide(norm) * wide(proj).flatten();
  const Tensor weights = at::softmax(at::matmul(keys, query), -1);
  return at::einsum("rn,rnd->rd", {reversed ? weights.flip(-1) : weights, values})
      .to(prefix.scalar_type());
}

Stream decoder_layer(const Stream& before, const Named& params, const DecoderConfig& c,
                     std::int64_t layer, std::int64_t batch, LayerTrace* trace) {
  const Layer l{params, c, c.prefix + "model.layers." + std::to_string(layer) + "."};
  const bool residual_reads = c.block > 0, opens = residual_reads && layer % c.block == 0;
  LayerTrace t;
  t.attn_read = before.bank.size(1) > 0 ? l.read(before, "self_attention_res") : before.prefix;
  Stream s = before;
  if (opens) s.bank = at::cat({s.bank, s.prefix.unsqueeze(1)}, 1);
  t.attn = attention(l, l.norm(t.attn_read, "input_layernorm"),
                     c.full.at(static_cast<std::size_t>(layer)), batch);
  s.prefix = opens ? t.attn : s.prefix + t.attn;
  // A view where nothing is read: its gradient is that of this branch alone.
  t.ffn_read =
      residual_reads ? l.read(s, "mlp_res", layer == c.misread) : s.prefix.view_as(s.prefix);
  const Tensor x = l.norm(t.ffn_read, "post_attention_layernorm");
  Tensor y;
  if (layer < c.dense) {
    y = l.dense(x);
  } else {
    MoeConfig mixture = c.moe;
    mixture.prefix = l.name + "block_sparse_moe.";
    const auto given = params.find("ids/layer" + std::to_string(layer));
    t.moe = moe(x, params, mixture, given == params.end() ? Tensor{} : given->second);
    y = t.moe.y;
  }
  s.prefix = s.prefix + y;
  if (trace) *trace = std::move(t);
  return s;
}

Tensor embed(const Tensor& tokens, const Named& params, const DecoderConfig& c) {
  // Rows of a token that comes again are added wide.
  const Tensor& table = params.at(c.prefix + "model.embed_tokens.weight");
  return at::embedding(wide(table), tokens).to(table.scalar_type());
}

Stream stream_of(const Tensor& embeddings) {
  Stream s{{}, embeddings.reshape({-1, embeddings.size(-1)})};
  s.bank = at::empty({s.prefix.size(0), 0, s.prefix.size(1)}, s.prefix.options());
  return s;
}

Head head(const Stream& s, const Named& params, const DecoderConfig& c) {
  const auto param = [&](const char* name) { return params.at(c.prefix + name); };
  Head out;
  out.output_read =
      c.block > 0 ? attn_res_read(s.bank, s.prefix, param("model.output_attn_res_norm.weight"),
                                  param("model.output_attn_res_proj.weight"), c.eps)
                  : s.prefix;
  out.logits = at::linear(normed(out.output_read, param("model.norm.weight"), c.eps),
                          param("lm_head.weight"));
  return out;
}

DecoderOutput decoder(const Tensor& embeddings, const Named& params, const DecoderConfig& c) {
  DecoderOutput out;
  Stream s = stream_of(embeddings);
  for (std::size_t l = 0; l < c.full.size(); ++l) {
    s = decoder_layer(s, params, c, static_cast<std::int64_t>(l), embeddings.size(0),
                      &out.traces.emplace_back());
    out.after.push_back(s);
  }
  Head last = head(s, params, c);
  out.output_read = std::move(last.output_read);
  out.logits = std::move(last.logits);
  return out;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels) {
  const Tensor counted = labels != -100;
  const Tensor chosen = at::log_softmax(wide(logits), -1)
                            .gather(-1, labels.masked_fill(counted.logical_not(), 0).unsqueeze(-1))
                            .squeeze(-1);
  return -(chosen * counted.to(chosen.scalar_type())).sum() /
         counted.sum().to(chosen.scalar_type());
}

}  // namespace parity::model
