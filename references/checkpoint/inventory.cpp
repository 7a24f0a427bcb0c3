#include "references/checkpoint/inventory.hpp"

#include <algorithm>

#include "harness/failure.hpp"

namespace parity::checkpoint {
namespace {

constexpr std::int64_t kGroup = 32;  // elements under one scale of MXFP4 (OCP MX 1.0, §5.2)

class Builder {
 public:
  explicit Builder(const ModelSizes& sizes) : m_(sizes) {}

  std::vector<StoredTensor> build() {
    const std::string text = m_.vision.layers > 0 ? "language_model." : "";
    const std::string model = text + "model.";
    weight(model + "embed_tokens", {m_.V, m_.D});
    for (std::int64_t i = 0; i < m_.layers; ++i)
      layer(model + "layers." + std::to_string(i) + ".", i);
    weight(model + "norm", {m_.D});
    weight(model + "output_attn_res_norm", {m_.D});
    weight(model + "output_attn_res_proj", {1, m_.D});
    weight(text + "lm_head", {m_.V, m_.D});
    if (m_.vision.layers > 0) vision();
    return std::move(list_);
  }

 private:
  void add(std::string name, std::vector<std::int64_t> shape, Dtype dtype,
           std::int64_t parameters) {
    list_.push_back({std::move(name), std::move(shape), dtype, parameters});
  }
  void add(std::string name, std::vector<std::int64_t> shape, Dtype dtype = Dtype::BF16) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    add(std::move(name), std::move(shape), dtype, elements);
  }
  void weight(const std::string& module, std::vector<std::int64_t> shape,
              Dtype dtype = Dtype::BF16) {
    add(module + ".weight", std::move(shape), dtype);
  }

  void layer(const std::string& at, std::int64_t i) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      weight(at + norm, {m_.D});
    for (const char* read : {"self_attention_res", "mlp_res"}) {
      weight(at + read + "_norm", {m_.D});
      weight(at + read + "_proj", {1, m_.D});
    }
    m_.is_full_attention(i) ? mla(at + "self_attn.") : kda(at + "self_attn.");
    m_.is_dense(i) ? gated(at + "mlp.", m_.dense_F) : moe(at + "block_sparse_moe.");
  }

  void mla(const std::string& at) {
    const std::int64_t value = m_.H * m_.v_head;
    weight(at + "q_a_proj", {m_.q_lora, m_.D});
    weight(at + "q_a_layernorm", {m_.q_lora});
    weight(at + "q_b_proj", {m_.H * (m_.nope + m_.rope), m_.q_lora});
    weight(at + "kv_a_proj_with_mqa", {m_.kv_lora + m_.rope, m_.D});
    weight(at + "kv_a_layernorm", {m_.kv_lora});
    weight(at + "kv_b_proj", {m_.H * (m_.nope + m_.v_head), m_.kv_lora});
    weight(at + "g_proj", {value, m_.D});
    weight(at + "o_proj", {m_.D, value});
  }

  void kda(const std::string& at) {
    const std::int64_t K = m_.kda_head, width = m_.H * K;
    for (const char* name : {"q", "k", "v"}) weight(at + name + "_proj", {width, m_.D});
    for (const char* name : {"q", "k", "v"})
      weight(at + name + "_conv1d", {width, 1, m_.conv}, Dtype::F32);
    weight(at + "f_a_proj", {K, m_.D});
    weight(at + "f_b_proj", {width, K});
    weight(at + "b_proj", {m_.H, m_.D});
    weight(at + "g_proj", {width, m_.D});
    weight(at + "o_norm", {K}, Dtype::F32);
    weight(at + "o_proj", {m_.D, width});
    add(at + "A_log", {m_.stored_heads ? m_.stored_heads : m_.H}, Dtype::F32, m_.H);
    add(at + "dt_bias", {width}, Dtype::F32);
  }

  void gated(const std::string& at, std::int64_t F) {
    weight(at + "gate_proj", {F, m_.D});
    weight(at + "up_proj", {F, m_.D});
    weight(at + "down_proj", {m_.D, F});
  }

  void moe(const std::string& at) {
    weight(at + "gate", {m_.E, m_.D});
    add(at + "gate.e_score_correction_bias", {m_.E}, Dtype::F32, 0);
    weight(at + "routed_expert_down_proj", {m_.latent, m_.D});
    weight(at + "routed_expert_norm", {m_.latent});
    weight(at + "routed_expert_up_proj", {m_.D, m_.latent});
    gated(at + "shared_experts.", m_.shared_F);
    for (std::int64_t e = 0; e < m_.E; ++e) {
      const std::string expert = at + "experts." + std::to_string(e) + ".";
      expert_weight(expert + "w1", m_.expert_F, m_.latent);  // gate
      expert_weight(expert + "w2", m_.latent, m_.expert_F);  // down
      expert_weight(expert + "w3", m_.expert_F, m_.latent);  // up
    }
  }

  void expert_weight(const std::string& module, std::int64_t out, std::int64_t in) {
    if (!m_.packed_experts) return weight(module, {out, in});
    add(module + ".weight_packed", {out, in / 2}, Dtype::U8, out * in);
    add(module + ".weight_scale", {out, in / kGroup}, Dtype::U8, 0);
  }

  void vision() {
    const VisionSizes& v = m_.vision;
    const std::string tower = "vision_tower.";
    weight(tower + "patch_embed.proj", {v.D, 3, v.patch, v.patch});
    weight(tower + "patch_embed.pos_emb", {v.rows, v.cols, v.D});
    for (std::int64_t i = 0; i < v.layers; ++i) {
      const std::string at = tower + "encoder.blocks." + std::to_string(i) + ".";
      weight(at + "norm0", {v.D});
      weight(at + "norm1", {v.D});
      weight(at + "wqkv", {3 * v.qkv, v.D});
      weight(at + "wo", {v.D, v.qkv});
      weight(at + "mlp.fc0", {v.F, v.D});
      weight(at + "mlp.fc1", {v.D, v.F});
    }
    weight(tower + "encoder.final_layernorm", {v.D});
    const std::int64_t merged = 4 * v.D;  // 2 x 2 patches
    weight("mm_projector.proj.0", {merged, merged});
    weight("mm_projector.proj.2", {m_.D, merged});
    weight("mm_projector.post_norm", {m_.D});
  }

  const ModelSizes& m_;
  std::vector<StoredTensor> list_ = {};
};

}  // namespace

bool ModelSizes::is_full_attention(std::int64_t layer) const {
  return std::ranges::find(full_attention, layer) != full_attention.end();
}

ModelSizes released_k3() {
  ModelSizes m{
      .name = "k3",
      .layers = 93,
      .D = 7168,
      .V = 163840,
      .H = 96,
      .q_lora = 1536,
      .kv_lora = 512,
      .nope = 128,
      .rope = 64,
      .v_head = 128,
      .kda_head = 128,
      .conv = 4,
      .dense_F = 33792,
      .E = 896,
      .latent = 3584,
      .expert_F = 3072,
      .shared_F = 6144,
      .vision =
          {.layers = 27, .D = 1024, .qkv = 1536, .F = 4096, .patch = 14, .rows = 64, .cols = 64},
      .packed_experts = true,
      .stored_heads = 128};
  for (std::int64_t i = 3; i < m.layers; i += 4) m.full_attention.push_back(i);
  m.full_attention.push_back(92);  // the last two layers both attend
  return m;
}

ModelSizes debug_model() {
  return {.name = "debug",
          .layers = 13,
          .D = 256,
          .V = 163840,
          .H = 4,
          .full_attention = {3, 7, 11, 12},
          .q_lora = 128,
          .kv_lora = 64,
          .nope = 32,
          .rope = 16,
          .v_head = 32,
          .kda_head = 32,
          .conv = 4,
          .dense_F = 1024,
          .E = 8,
          .latent = 128,
          .expert_F = 128,
          .shared_F = 256,
          .vision = {
              .layers = 4, .D = 256, .qkv = 384, .F = 1024, .patch = 14, .rows = 16, .cols = 16}};
}

ModelSizes model_sizes(std::string_view name) {
  for (ModelSizes sizes : {released_k3(), debug_model()})
    if (sizes.name == name) return sizes;
  throw UsageError("--model " + std::string(name) + ": k3 or debug");
}

std::vector<StoredTensor> inventory(const ModelSizes& sizes) { return Builder(sizes).build(); }

}  // namespace parity::checkpoint
