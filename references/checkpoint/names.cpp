#include "references/checkpoint/names.hpp"

#include <algorithm>
#include <array>

#include "harness/text.hpp"

namespace parity::checkpoint {
namespace {

enum class Where { Any, Mla, Kda, Dense, Moe };

// '#' is a number: of a layer, or of an expert.
struct Row {
  std::string_view released, torchtitan;
  Where where = Where::Any;
  int part = 0, parts = 1;
};

constexpr Row kRows[] = {
    {"model.embed_tokens.weight", "tok_embeddings.weight"},
    {"model.norm.weight", "norm.weight"},
    {"model.output_attn_res_norm.weight", "output_res_norm.weight"},
    {"model.output_attn_res_proj.weight", "output_res_proj.weight"},
    {"lm_head.weight", "lm_head.weight"},
    {"model.layers.#.input_layernorm.weight", "layers.#.attention_norm.weight"},
    {"model.layers.#.post_attention_layernorm.weight", "layers.#.ffn_norm.weight"},
    {"model.layers.#.self_attention_res_norm.weight", "layers.#.attention_res_norm.weight"},
    {"model.layers.#.self_attention_res_proj.weight", "layers.#.attention_res_proj.weight"},
    {"model.layers.#.mlp_res_norm.weight", "layers.#.ffn_res_norm.weight"},
    {"model.layers.#.mlp_res_proj.weight", "layers.#.ffn_res_proj.weight"},

    {"model.layers.#.self_attn.q_a_proj.weight", "layers.#.attention.wq_a.weight", Where::Mla},
    {"model.layers.#.self_attn.q_a_layernorm.weight", "layers.#.attention.q_norm.weight",
     Where::Mla},
    {"model.layers.#.self_attn.q_b_proj.weight", "layers.#.attention.wq_b.weight", Where::Mla},
    {"model.layers.#.self_attn.kv_a_proj_with_mqa.weight", "layers.#.attention.wkv_a.weight",
     Where::Mla},
    {"model.layers.#.self_attn.kv_a_layernorm.weight", "layers.#.attention.kv_norm.weight",
     Where::Mla},
    {"model.layers.#.self_attn.kv_b_proj.weight", "layers.#.attention.wkv_b.weight", Where::Mla},
    {"model.layers.#.self_attn.g_proj.weight", "layers.#.attention.gate.weight", Where::Mla},
    {"model.layers.#.self_attn.o_proj.weight", "layers.#.attention.wo.weight", Where::Mla},

    {"model.layers.#.self_attn.q_proj.weight", "layers.#.delta_attention.q_proj.weight",
     Where::Kda},
    {"model.layers.#.self_attn.k_proj.weight", "layers.#.delta_attention.k_proj.weight",
     Where::Kda},
    {"model.layers.#.self_attn.v_proj.weight", "layers.#.delta_attention.v_proj.weight",
     Where::Kda},
    {"model.layers.#.self_attn.q_conv1d.weight", "layers.#.delta_attention.q_conv.weight",
     Where::Kda},
    {"model.layers.#.self_attn.k_conv1d.weight", "layers.#.delta_attention.k_conv.weight",
     Where::Kda},
    {"model.layers.#.self_attn.v_conv1d.weight", "layers.#.delta_attention.v_conv.weight",
     Where::Kda},
    {"model.layers.#.self_attn.f_a_proj.weight", "layers.#.delta_attention.forget_a.weight",
     Where::Kda},
    {"model.layers.#.self_attn.f_b_proj.weight", "layers.#.delta_attention.forget_b.weight",
     Where::Kda},
    {"model.layers.#.self_attn.b_proj.weight", "layers.#.delta_attention.beta.weight", Where::Kda},
    {"model.layers.#.self_attn.g_proj.weight", "layers.#.delta_attention.output_gate.weight",
     Where::Kda},
    {"model.layers.#.self_attn.o_norm.weight", "layers.#.delta_attention.output_norm.weight",
     Where::Kda},
    {"model.layers.#.self_attn.o_proj.weight", "layers.#.delta_attention.output_proj.weight",
     Where::Kda},
    {"model.layers.#.self_attn.A_log", "layers.#.delta_attention.A_log", Where::Kda},
    {"model.layers.#.self_attn.dt_bias", "layers.#.delta_attention.dt_bias", Where::Kda},

    {"model.layers.#.mlp.gate_proj.weight", "layers.#.feed_forward.w1.weight", Where::Dense},
    {"model.layers.#.mlp.down_proj.weight", "layers.#.feed_forward.w2.weight", Where::Dense},
    {"model.layers.#.mlp.up_proj.weight", "layers.#.feed_forward.w3.weight", Where::Dense},

    {"model.layers.#.block_sparse_moe.experts.#.w1.weight",
     "layers.#.moe.routed_experts.#.w1.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.experts.#.w2.weight",
     "layers.#.moe.routed_experts.#.w2.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.experts.#.w3.weight",
     "layers.#.moe.routed_experts.#.w3.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.gate.weight", "layers.#.moe.router.gate.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.gate.e_score_correction_bias", "layers.#.moe.expert_bias_E",
     Where::Moe},
    {"model.layers.#.block_sparse_moe.routed_expert_down_proj.weight",
     "layers.#.moe.routed_down.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.routed_expert_norm.weight", "layers.#.moe.routed_norm.weight",
     Where::Moe},
    {"model.layers.#.block_sparse_moe.routed_expert_up_proj.weight",
     "layers.#.moe.routed_up.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.shared_experts.gate_proj.weight",
     "layers.#.moe.shared_experts.w1.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.shared_experts.down_proj.weight",
     "layers.#.moe.shared_experts.w2.weight", Where::Moe},
    {"model.layers.#.block_sparse_moe.shared_experts.up_proj.weight",
     "layers.#.moe.shared_experts.w3.weight", Where::Moe},

    {"vision_tower.patch_embed.proj.weight", "vision_encoder.patch_embed.weight"},
    {"vision_tower.patch_embed.pos_emb.weight", "vision_encoder.pos_embed"},
    {"vision_tower.encoder.blocks.#.norm0.weight", "vision_encoder.layers.#.norm1.weight"},
    {"vision_tower.encoder.blocks.#.norm1.weight", "vision_encoder.layers.#.norm2.weight"},
    {"vision_tower.encoder.blocks.#.wqkv.weight", "vision_encoder.layers.#.attn.wq.weight",
     Where::Any, 0, 3},
    {"vision_tower.encoder.blocks.#.wqkv.weight", "vision_encoder.layers.#.attn.wk.weight",
     Where::Any, 1, 3},
    {"vision_tower.encoder.blocks.#.wqkv.weight", "vision_encoder.layers.#.attn.wv.weight",
     Where::Any, 2, 3},
    {"vision_tower.encoder.blocks.#.wo.weight", "vision_encoder.layers.#.attn.proj.weight"},
    {"vision_tower.encoder.blocks.#.mlp.fc0.weight",
     "vision_encoder.layers.#.mlp.linear_fc1.weight"},
    {"vision_tower.encoder.blocks.#.mlp.fc1.weight",
     "vision_encoder.layers.#.mlp.linear_fc2.weight"},
    {"vision_tower.encoder.final_layernorm.weight", "vision_encoder.final_norm.weight"},
    {"mm_projector.proj.0.weight", "vision_encoder.projector.linear_1.weight"},
    {"mm_projector.proj.2.weight", "vision_encoder.projector.linear_2.weight"},
    {"mm_projector.post_norm.weight", "vision_encoder.projector.post_norm.weight"},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The numbers of a name that matches, as they are written; "01" is no number of anything.
std::optional<std::vector<std::string_view>> numbers(std::string_view pattern,
                                                     std::string_view name) {
  std::vector<std::string_view> found;
  std::size_t n = 0;
  for (const char c : pattern) {
    if (c != '#') {
      if (n == name.size() || name[n++] != c) return std::nullopt;
      continue;
    }
    const std::size_t begin = n;
    while (n < name.size() && is_digit(name[n])) ++n;
    const std::string_view digits = name.substr(begin, n - begin);
    if (digits.empty() || digits.size() > 9 || (digits.size() > 1 && digits[0] == '0'))
      return std::nullopt;
    found.push_back(digits);
  }
  if (n != name.size()) return std::nullopt;
  return found;
}

std::string with(std::string_view pattern, const std::vector<std::string_view>& numbers) {
  std::string text;
  std::size_t next = 0;
  for (const char c : pattern) {
    if (c == '#')
      text += numbers[next++];
    else
      text += c;
  }
  return text;
}

bool belongs(const ModelSizes& m, const Row& row, const std::vector<std::string_view>& numbers) {
  if (numbers.empty()) return true;
  const std::int64_t layer = to_integer(numbers[0], "a layer");
  if (row.released.starts_with("vision_tower.")) return layer < m.vision.layers;
  if (layer >= m.layers) return false;
  if (numbers.size() > 1 && to_integer(numbers[1], "an expert") >= m.E) return false;
  switch (row.where) {
    case Where::Any:
      return true;
    case Where::Mla:
      return m.is_full_attention(layer);
    case Where::Kda:
      return !m.is_full_attention(layer);
    case Where::Dense:
      return m.is_dense(layer);
    case Where::Moe:
      return !m.is_dense(layer);
  }
  return false;
}

}  // namespace

std::vector<std::string> torchtitan_names(const ModelSizes& sizes, std::string_view released) {
  constexpr std::string_view kText = "language_model.";
  if (released.starts_with(kText)) released.remove_prefix(kText.size());
  std::vector<std::string> names;
  for (const Row& row : kRows)
    if (const auto found = numbers(row.released, released); found && belongs(sizes, row, *found))
      names.push_back(with(row.torchtitan, *found));
  return names;
}

std::optional<ReleasedName> released_name(std::string_view torchtitan) {
  for (const Row& row : kRows)
    if (const auto found = numbers(row.torchtitan, torchtitan))
      return ReleasedName{with(row.released, *found), row.part, row.parts};
  return std::nullopt;
}

bool is_torchtitan(std::string_view name) {
  return name == "tok_embeddings.weight" || name.starts_with("layers.") ||
         name.starts_with("vision_encoder.");
}

}  // namespace parity::checkpoint
