#include "golden/reduced.hpp"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "harness/failure.hpp"

namespace parity::golden {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uintmax_t kMostBytes = 1 << 20;  // the file is a few kilobytes of numbers

struct Parameter {
  const char* name;
  std::vector<std::int64_t> extents;
};

// In the order in which the modules register them, which numbers them.
const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> list = {
      {"tok_embeddings.weight", {32, 16}},
      {"layers.0.delta_attention.A_log", {2}},
      {"layers.0.delta_attention.dt_bias", {2, 4}},
      {"layers.0.delta_attention.q_proj.weight", {8, 16}},
      {"layers.0.delta_attention.k_proj.weight", {8, 16}},
      {"layers.0.delta_attention.v_proj.weight", {8, 16}},
      {"layers.0.delta_attention.q_conv.weight", {8, 1, 3}},
      {"layers.0.delta_attention.k_conv.weight", {8, 1, 3}},
      {"layers.0.delta_attention.v_conv.weight", {8, 1, 3}},
      {"layers.0.delta_attention.forget_a.weight", {4, 16}},
      {"layers.0.delta_attention.forget_b.weight", {8, 4}},
      {"layers.0.delta_attention.beta.weight", {2, 16}},
      {"layers.0.delta_attention.output_gate.weight", {8, 16}},
      {"layers.0.delta_attention.output_norm.weight", {4}},
      {"layers.0.delta_attention.output_proj.weight", {16, 8}},
      {"layers.0.feed_forward.w1.weight", {32, 16}},
      {"layers.0.feed_forward.w2.weight", {16, 32}},
      {"layers.0.feed_forward.w3.weight", {32, 16}},
      {"layers.0.attention_norm.weight", {16}},
      {"layers.0.ffn_norm.weight", {16}},
      {"layers.0.attention_res_norm.weight", {16}},
      {"layers.0.attention_res_proj.weight", {1, 16}},
      {"layers.0.ffn_res_norm.weight", {16}},
      {"layers.0.ffn_res_proj.weight", {1, 16}},
      {"layers.1.attention.wq_a.weight", {8, 16}},
      {"layers.1.attention.q_norm.weight", {8}},
      {"layers.1.attention.wq_b.weight", {16, 8}},
      {"layers.1.attention.wkv_a.weight", {12, 16}},
      {"layers.1.attention.kv_norm.weight", {8}},
      {"layers.1.attention.wkv_b.weight", {16, 8}},
      {"layers.1.attention.gate.weight", {8, 16}},
      {"layers.1.attention.wo.weight", {16, 8}},
      {"layers.1.moe.router.gate.weight", {2, 16}},
      {"layers.1.moe.routed_down.weight", {8, 16}},
      {"layers.1.moe.routed_experts.0.w1.weight", {8, 8}},
      {"layers.1.moe.routed_experts.0.w2.weight", {8, 8}},
      {"layers.1.moe.routed_experts.0.w3.weight", {8, 8}},
      {"layers.1.moe.routed_experts.1.w1.weight", {8, 8}},
      {"layers.1.moe.routed_experts.1.w2.weight", {8, 8}},
      {"layers.1.moe.routed_experts.1.w3.weight", {8, 8}},
      {"layers.1.moe.routed_norm.weight", {8}},
      {"layers.1.moe.routed_up.weight", {16, 8}},
      {"layers.1.moe.shared_experts.w1.weight", {8, 16}},
      {"layers.1.moe.shared_experts.w2.weight", {16, 8}},
      {"layers.1.moe.shared_experts.w3.weight", {8, 16}},
      {"layers.1.attention_norm.weight", {16}},
      {"layers.1.ffn_norm.weight", {16}},
      {"layers.1.attention_res_norm.weight", {16}},
      {"layers.1.attention_res_proj.weight", {1, 16}},
      {"layers.1.ffn_res_norm.weight", {16}},
      {"layers.1.ffn_res_proj.weight", {1, 16}},
      {"norm.weight", {16}},
      {"lm_head.weight", {32, 16}},
      {"output_res_norm.weight", {16}},
      {"output_res_proj.weight", {1, 16}},
      {"vision_encoder.pos_embed", {2, 2, 16}},
      {"vision_encoder.patch_embed.weight", {16, 12}},
      {"vision_encoder.layers.0.norm1.weight", {16}},
      {"vision_encoder.layers.0.norm2.weight", {16}},
      {"vision_encoder.layers.0.attn.wq.weight", {24, 16}},
      {"vision_encoder.layers.0.attn.wk.weight", {24, 16}},
      {"vision_encoder.layers.0.attn.wv.weight", {24, 16}},
      {"vision_encoder.layers.0.attn.proj.weight", {16, 24}},
      {"vision_encoder.layers.0.mlp.linear_fc1.weight", {32, 16}},
      {"vision_encoder.layers.0.mlp.linear_fc2.weight", {16, 32}},
      {"vision_encoder.final_norm.weight", {16}},
      {"vision_encoder.projector.linear_1.weight", {64, 64}},
      {"vision_encoder.projector.linear_2.weight", {16, 64}},
      {"vision_encoder.projector.post_norm.weight", {16}}};
  return list;
}

Tensor tensor(const std::string& name, Dtype dtype, const std::vector<std::int64_t>& extents,
              const std::vector<double>& values) {
  TensorSpec spec{.name = name, .dtype = dtype};
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    spec.dims.push_back({std::string(1, static_cast<char>('A' + axis)), extents[axis]});
  return make_tensor(std::move(spec), values);
}

std::int64_t product(const std::vector<std::int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

// 0.02 sin(0.013 j + 0.17 i), in float32 as the model's builder computes it.
Tensor parameter(std::size_t i, const Parameter& p) {
  const std::string name = p.name;
  const auto phase = static_cast<float>(0.17 * static_cast<double>(i));
  std::vector<double> values;
  for (std::int64_t j = 0; j < product(p.extents); ++j) {
    const float turn = 0.013f * static_cast<float>(j);
    const float x = 0.02f * std::sin(turn + phase);
    values.push_back(name.ends_with("norm.weight") ? x + 1.0f : x);
  }
  return tensor("params/" + name, Dtype::F32, p.extents, values);
}

std::vector<double> pixels() {
  std::vector<double> values;
  for (int k = 0; k < 48; ++k) values.push_back(std::sin(0.07f * static_cast<float>(k)));
  return values;
}

Tensor outputs(const json& file, const char* key, const std::string& name,
               const std::vector<std::int64_t>& extents) {
  const auto values = file.at(key).at("values").get<std::vector<double>>();
  const auto shape = file.at(key).at("shape").get<std::vector<std::int64_t>>();
  const std::int64_t count = product(extents);
  if (static_cast<std::int64_t>(values.size()) != count || product(shape) != count)
    throw UsageError(fmt::format("{} holds {} numbers, not {}", key, values.size(), count));
  return tensor("outputs/" + name, Dtype::F32, extents, values);
}

Tensor routed(const json& file, const char* pass, std::int64_t tokens) {
  const auto ids = file.at("routed_expert_ids").at(pass).get<std::vector<double>>();
  if (static_cast<std::int64_t>(ids.size()) != tokens)
    throw UsageError(
        fmt::format("routed_expert_ids of {} are {}, not {}", pass, ids.size(), tokens));
  return tensor(fmt::format("outputs/{}_pass/tap/layer1.expert_ids", pass), Dtype::I64, {tokens, 1},
                ids);
}

std::vector<Tensor> tensors_of(const json& file) {
  std::vector<Tensor> all = {
      tensor("inputs/text_tokens", Dtype::I64, {1, 4}, {1, 2, 3, 4}),
      tensor("inputs/mm_tokens", Dtype::I64, {1, 6}, {1, 2, 7, 3, 4, 5}),
      tensor("inputs/grid_thw", Dtype::I64, {1, 3}, {1, 2, 2}),
      tensor("inputs/pixels", Dtype::F32, {1, 4, 12}, pixels()),
      tensor("params/layers.1.moe.expert_bias_E", Dtype::F32, {2}, {-0.01, 0.01}),
      outputs(file, "text_logits", "text", {1, 4, 32}),
      outputs(file, "vision_features", "vision", {1, 1, 16}),
      outputs(file, "multimodal_logits", "multimodal", {1, 6, 32}),
      routed(file, "text", 4),
      routed(file, "multimodal", 6)};
  for (std::size_t i = 0; i < parameters().size(); ++i)
    all.push_back(parameter(i, parameters()[i]));
  return all;
}

}  // namespace

StoredCase reduced_case(const fs::path& json_file) {
  std::error_code error;
  if (const std::uintmax_t bytes = fs::file_size(json_file, error); error || bytes > kMostBytes)
    throw UsageError(json_file.string() +
                     (error ? ": cannot be read" : ": too large for a golden"));
  StoredCase stored{.file = json_file.string(), .name = "reduced"};
  std::map<std::string, Tensor> tensors;
  try {
    const json file = json::parse(std::ifstream(json_file));
    stored.attributes = {{"op", "decoder"},
                         {"dtype", "float32"},
                         {"source", file.at("source").get<std::string>()},
                         {"latent_norm_eps", "1e-6"},
                         {"renormalise_top1", "0"},
                         {"vit_norm_eps", fmt::format("{}", 0x1p-23)}};
    for (Tensor& t : tensors_of(file)) {
      stored.paths.push_back(t.spec.name);
      stored.path_attributes[t.spec.name] = {};
      tensors.emplace(t.spec.name, std::move(t));
    }
  } catch (const json::exception& problem) {
    throw UsageError(json_file.string() + ": no golden of the parity model: " + problem.what());
  } catch (const UsageError& problem) {
    throw UsageError(json_file.string() + ": " + problem.what());
  }
  stored.read = [tensors = std::move(tensors)](const std::string& path) {
    return tensors.at(path);
  };
  return stored;
}

}  // namespace parity::golden
