// The same parameters in other people's state dictionaries.
#include <array>
#include <utility>

#include "references/blocks/vision.hpp"

namespace parity::net {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;  // released, theirs

constexpr std::array kTorchtitan = {
    Pair{"vision_tower.patch_embed.pos_emb.weight", "pos_embed"},
    Pair{"vision_tower.patch_embed.proj", "patch_embed"},
    Pair{"vision_tower.encoder.final_layernorm", "final_norm"},
    Pair{"vision_tower.encoder.blocks.", "layers."},
    Pair{".norm1.", ".norm2."},
    Pair{".norm0.", ".norm1."},
    Pair{".wqkv.", ".attn.wqkv."},
    Pair{".wq.", ".attn.wq."},
    Pair{".wk.", ".attn.wk."},
    Pair{".wv.", ".attn.wv."},
    Pair{".wo.", ".attn.proj."},
    Pair{".mlp.fc1.", ".mlp.linear_fc2."},
    Pair{".mlp.fc0.", ".mlp.linear_fc1."},
    Pair{"mm_projector.proj.0", "projector.linear_1"},
    Pair{"mm_projector.proj.2", "projector.linear_2"},
    Pair{"mm_projector.", "projector."},
};

constexpr std::array kTransformers = {
    Pair{"pos_emb.weight", "pos_emb.position_embeddings"},
    Pair{"encoder.final_layernorm", "final_layernorm"},
    Pair{"encoder.blocks.", "layers."},
    Pair{".norm1.", ".norm2."},
    Pair{".norm0.", ".norm1."},
    Pair{".wq.", ".attn.q_proj."},
    Pair{".wk.", ".attn.k_proj."},
    Pair{".wv.", ".attn.v_proj."},
    Pair{".wo.", ".attn.proj."},
    Pair{".mlp.fc1.", ".mlp.fc2."},
    Pair{".mlp.fc0.", ".mlp.fc1."},
    Pair{"mm_projector.proj.0", "mm_projector.in_proj"},
    Pair{"mm_projector.proj.2", "mm_projector.out_proj"},
};

// Each part of the name once, in the order of the table: a later one sees what is renamed already.
std::string renamed(std::string name, std::span<const Pair> table) {
  for (const auto& [ours, theirs] : table)
    if (const std::size_t at = name.find(ours); at != std::string::npos)
      name.replace(at, ours.size(), theirs);
  return name;
}

}  // namespace

std::string torchtitan_vision_name(std::string released) {
  return renamed(std::move(released), kTorchtitan);
}
std::string transformers_vision_name(std::string released) {
  return renamed(std::move(released), kTransformers);
}

}  // namespace parity::net
