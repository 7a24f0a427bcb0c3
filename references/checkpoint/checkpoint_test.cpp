// The count identities of the released checkpoint, and names there and back.
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "golden/h5.hpp"
#include "harness/failure.hpp"
#include "harness/test_paths.hpp"
#include "references/checkpoint/inventory.hpp"
#include "references/checkpoint/names.hpp"

namespace parity::checkpoint {
namespace {

std::int64_t parameters(const std::vector<StoredTensor>& list, std::string_view part = "") {
  std::int64_t sum = 0;
  for (const StoredTensor& t : list)
    if (t.name.find(part) != std::string::npos) sum += t.parameters;
  return sum;
}

TEST(Inventory, HasTheCountsOfTheReleasedCheckpoint) {
  const std::vector<StoredTensor> list = inventory(released_k3());
  std::map<Dtype, std::int64_t> tensors;
  std::set<std::string> names;
  std::int64_t padding = 0, bias = 0;
  for (const StoredTensor& t : list) {
    ++tensors[t.dtype];
    names.insert(t.name);
    if (t.name.ends_with("A_log")) padding += t.shape[0] - t.parameters;
    if (t.name.ends_with("correction_bias")) bias += t.shape[0];
  }
  EXPECT_EQ(list.size(), 497'220u);
  EXPECT_EQ(names.size(), list.size());
  EXPECT_EQ(tensors, (std::map<Dtype, std::int64_t>{
                         {Dtype::U8, 494'592}, {Dtype::F32, 506}, {Dtype::BF16, 2'122}}));
  EXPECT_EQ(parameters(list), 2'779'931'752'544);
  EXPECT_EQ(parameters(list) + padding + bias, 2'779'931'837'184);
  EXPECT_EQ(parameters(list, "vision_tower."), 401'214'464);
  EXPECT_EQ(parameters(list, "mm_projector."), 46'144'512);
  EXPECT_EQ(parameters(list, "layers.0.self_attn."), 443'740'384);
  EXPECT_EQ(parameters(list, "layers.3.self_attn."), 232'196'096);
  EXPECT_EQ(parameters(list, "layers.0.mlp."), 726'663'168);
  EXPECT_EQ(parameters(list, "layers.92.block_sparse_moe."), 29'784'935'936);
}

TEST(Inventory, HasTheCountsOfTheDebugModel) {
  ModelSizes sizes = debug_model();
  const std::vector<StoredTensor> list = inventory(sizes);
  EXPECT_EQ(parameters(list), 100'032'452);
  EXPECT_EQ(parameters(list, "vision_tower."), 3'888'384);
  EXPECT_EQ(parameters(list, "mm_projector."), 1'310'976);
  EXPECT_EQ(parameters(list, "layers.0.self_attn."), 178'852);
  EXPECT_EQ(parameters(list, "layers.3.self_attn."), 159'936);
  EXPECT_EQ(parameters(list, "layers.0.mlp."), 786'432);
  EXPECT_EQ(parameters(list, "layers.1.block_sparse_moe."), 657'536);
  sizes.full_attention = {3, 7, 11};  // before its last layer attended
  EXPECT_EQ(parameters(inventory(sizes)), 100'051'368);
  EXPECT_THROW((void)model_sizes("k4"), UsageError);
}

// To torchtitan and back is the same name, nothing is lost, and no two meet.
void expect_round_trip(ModelSizes sizes) {
  sizes.packed_experts = false;
  std::set<std::string> seen;
  for (const StoredTensor& t : inventory(sizes)) {
    const std::vector<std::string> there = torchtitan_names(sizes, t.name);
    ASSERT_EQ(there.size(), t.name.find("wqkv") == std::string::npos ? 1u : 3u) << t.name;
    const std::string plain = t.name.starts_with("language_model.") ? t.name.substr(15) : t.name;
    for (std::size_t i = 0; i < there.size(); ++i) {
      const auto back = released_name(there[i]);
      ASSERT_TRUE(back) << there[i];
      EXPECT_EQ(*back, (ReleasedName{plain, static_cast<int>(i), static_cast<int>(there.size())}));
      EXPECT_TRUE(seen.insert(there[i]).second) << there[i];
    }
  }
}

TEST(Names, GoThereAndBack) {
  expect_round_trip(debug_model());
  // All layers, and more experts than one digit counts (fault A-CK01).
  ModelSizes sizes = released_k3();
  sizes.E = 12;
  expect_round_trip(sizes);
}

TEST(Names, ExpertsKeepTheirNumbers) {
  const ModelSizes k3 = released_k3();
  EXPECT_EQ(
      torchtitan_names(k3, "language_model.model.layers.10.block_sparse_moe.experts.101.w2.weight"),
      std::vector<std::string>{"layers.10.moe.routed_experts.101.w2.weight"});
  EXPECT_EQ(released_name("layers.10.moe.routed_experts.2.w2.weight")->name,
            "model.layers.10.block_sparse_moe.experts.2.w2.weight");
}

TEST(Names, WhatTheModelHasNotHasNoName) {
  const ModelSizes k3 = released_k3();
  for (const char* name :
       {"model.layers.93.input_layernorm.weight", "model.layers.0.block_sparse_moe.gate.weight",
        "model.layers.1.mlp.up_proj.weight", "model.layers.3.self_attn.A_log",
        "model.layers.0.self_attn.q_a_proj.weight", "model.layers.01.input_layernorm.weight",
        "model.layers..input_layernorm.weight",
        "model.layers.1.block_sparse_moe.experts.896.w1.weight",
        "vision_tower.encoder.blocks.27.wo.weight", "model.norm.bias", ""})
    EXPECT_TRUE(torchtitan_names(k3, name).empty()) << name;
  // The same name here, two there, by what the layer is.
  EXPECT_EQ(torchtitan_names(k3, "model.layers.0.self_attn.g_proj.weight").front(),
            "layers.0.delta_attention.output_gate.weight");
  EXPECT_EQ(torchtitan_names(k3, "model.layers.3.self_attn.g_proj.weight").front(),
            "layers.3.attention.gate.weight");
  EXPECT_FALSE(released_name("layers.0.attention.wq.weight"));
}

std::map<std::string, std::vector<std::int64_t>> stored(const h5::File& file,
                                                        const std::string& name) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const std::string& path : file.datasets("/" + name + "/params"))
    shapes[path] = file.info("/" + name + "/params/" + path).shape;
  return shapes;
}

std::int64_t size(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

// Models that both implementations built: every name of them, and no other.
TEST(Names, AreThoseOfTheIndependentGoldens) {
  const h5::File file(std::string(test::kSourceDir) + "/golden/independent/k3.h5");
  ModelSizes sizes{.layers = 4,
                   .D = 16,
                   .V = 36,
                   .H = 2,
                   .full_attention = {3},
                   .q_lora = 8,
                   .kv_lora = 6,
                   .nope = 4,
                   .rope = 4,
                   .v_head = 4,
                   .kda_head = 4,
                   .conv = 4,
                   .dense_F = 20,
                   .E = 4,
                   .latent = 8,
                   .expert_F = 6,
                   .shared_F = 12};
  std::map<std::string, std::vector<std::int64_t>> want;
  for (const StoredTensor& t : inventory(sizes)) want[t.name] = t.shape;
  EXPECT_EQ(stored(file, "decoder_released_4l"), want);

  sizes.V = 40;
  sizes.v_head = 5;
  const auto titan = stored(file, "decoder_pr_4l");
  std::size_t named = 0;
  for (const StoredTensor& t : inventory(sizes))
    for (const std::string& name : torchtitan_names(sizes, t.name)) {
      ASSERT_TRUE(titan.contains(name)) << name;
      EXPECT_EQ(size(titan.at(name)), size(t.shape)) << name;
      ++named;
    }
  EXPECT_EQ(named, titan.size());

  sizes.layers = 2;
  sizes.full_attention = {1};
  sizes.conv = 3;
  sizes.shared_F = 6;
  sizes.V = 32;
  sizes.v_head = 4;
  sizes.vision = {.layers = 1, .D = 8, .qkv = 12, .F = 12, .patch = 2, .rows = 2, .cols = 3};
  const auto with_images = stored(file, "decoder_pr_mm");
  named = 0;
  for (const StoredTensor& t : inventory(sizes)) {
    const std::vector<std::string> names = torchtitan_names(sizes, t.name);
    for (const std::string& name : names) {
      ASSERT_TRUE(with_images.contains(name)) << name;
      EXPECT_EQ(size(with_images.at(name)) * static_cast<std::int64_t>(names.size()), size(t.shape))
          << name;
      ++named;
    }
  }
  EXPECT_EQ(named, with_images.size());
}

}  // namespace
}  // namespace parity::checkpoint
