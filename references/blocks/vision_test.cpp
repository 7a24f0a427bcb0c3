#include "references/blocks/vision.hpp"

#include <gtest/gtest.h>

namespace parity::net {
namespace {

TEST(VisionNames, OfTorchtitan) {
  const std::string block = "vision_tower.encoder.blocks.26.";
  EXPECT_EQ(torchtitan_vision_name("vision_tower.patch_embed.proj.weight"), "patch_embed.weight");
  EXPECT_EQ(torchtitan_vision_name("vision_tower.patch_embed.pos_emb.weight"), "pos_embed");
  EXPECT_EQ(torchtitan_vision_name(block + "norm0.weight"), "layers.26.norm1.weight");
  EXPECT_EQ(torchtitan_vision_name(block + "norm1.weight"), "layers.26.norm2.weight");
  EXPECT_EQ(torchtitan_vision_name(block + "wk.weight"), "layers.26.attn.wk.weight");
  EXPECT_EQ(torchtitan_vision_name(block + "wo.weight"), "layers.26.attn.proj.weight");
  EXPECT_EQ(torchtitan_vision_name(block + "mlp.fc0.weight"), "layers.26.mlp.linear_fc1.weight");
  EXPECT_EQ(torchtitan_vision_name(block + "mlp.fc1.weight"), "layers.26.mlp.linear_fc2.weight");
  EXPECT_EQ(torchtitan_vision_name("mm_projector.proj.2.weight"), "projector.linear_2.weight");
  EXPECT_EQ(torchtitan_vision_name("mm_projector.post_norm.weight"), "projector.post_norm.weight");
}

TEST(VisionNames, OfTransformers) {
  const std::string block = "vision_tower.encoder.blocks.0.";
  EXPECT_EQ(transformers_vision_name(block + "wq.bias"), "vision_tower.layers.0.attn.q_proj.bias");
  EXPECT_EQ(transformers_vision_name(block + "norm1.bias"), "vision_tower.layers.0.norm2.bias");
  EXPECT_EQ(transformers_vision_name(block + "mlp.fc0.bias"), "vision_tower.layers.0.mlp.fc1.bias");
  EXPECT_EQ(transformers_vision_name("mm_projector.proj.0.bias"), "mm_projector.in_proj.bias");
}

TEST(VisionTower, CountsMergedTokens) {
  const VisionTower tower{.grids = parse_grids("1x4x2+3x2x6"), .merge_h = 2, .merge_w = 2};
  EXPECT_EQ(tower.merged_by_item(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tower.merged(), 5);
}

TEST(VisionTower, EpsOfADtypeIsItsSpacingAtOne) {
  EXPECT_EQ(spacing_at_one(Dtype::F64), 0x1p-52);
  EXPECT_EQ(spacing_at_one(Dtype::F32), 0x1p-23);
  EXPECT_EQ(spacing_at_one(Dtype::BF16), 0x1p-7);
}

}  // namespace
}  // namespace parity::net
