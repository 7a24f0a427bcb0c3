// The strengthened parity model (k3.md §6.6): the two-layer model of the frozen golden at unit
// scale, with four experts of which two are chosen, a 4 x 4 image, intermediates and gradients. And
// at a tiny scale, where every eps counts.
#include <array>
#include <cmath>

#include "harness/kernel.hpp"

namespace parity {
namespace {

// Released names in the order in which the modules register their parameters.
constexpr std::array<std::string_view, 75> kParameters = {
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.A_log",
    "model.layers.0.self_attn.dt_bias",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.0.self_attn.v_proj.weight",
    "model.layers.0.self_attn.q_conv1d.weight",
    "model.layers.0.self_attn.k_conv1d.weight",
    "model.layers.0.self_attn.v_conv1d.weight",
    "model.layers.0.self_attn.f_a_proj.weight",
    "model.layers.0.self_attn.f_b_proj.weight",
    "model.layers.0.self_attn.b_proj.weight",
    "model.layers.0.self_attn.g_proj.weight",
    "model.layers.0.self_attn.o_norm.weight",
    "model.layers.0.self_attn.o_proj.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.0.mlp.down_proj.weight",
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.0.input_layernorm.weight",
    "model.layers.0.post_attention_layernorm.weight",
    "model.layers.0.self_attention_res_norm.weight",
    "model.layers.0.self_attention_res_proj.weight",
    "model.layers.0.mlp_res_norm.weight",
    "model.layers.0.mlp_res_proj.weight",
    "model.layers.1.self_attn.q_a_proj.weight",
    "model.layers.1.self_attn.q_a_layernorm.weight",
    "model.layers.1.self_attn.q_b_proj.weight",
    "model.layers.1.self_attn.kv_a_proj_with_mqa.weight",
    "model.layers.1.self_attn.kv_a_layernorm.weight",
    "model.layers.1.self_attn.kv_b_proj.weight",
    "model.layers.1.self_attn.g_proj.weight",
    "model.layers.1.self_attn.o_proj.weight",
    "model.layers.1.block_sparse_moe.gate.weight",
    "model.layers.1.block_sparse_moe.routed_expert_down_proj.weight",
    "model.layers.1.block_sparse_moe.experts.0.w1.weight",
    "model.layers.1.block_sparse_moe.experts.0.w2.weight",
    "model.layers.1.block_sparse_moe.experts.0.w3.weight",
    "model.layers.1.block_sparse_moe.experts.1.w1.weight",
    "model.layers.1.block_sparse_moe.experts.1.w2.weight",
    "model.layers.1.block_sparse_moe.experts.1.w3.weight",
    "model.layers.1.block_sparse_moe.experts.2.w1.weight",
    "model.layers.1.block_sparse_moe.experts.2.w2.weight",
    "model.layers.1.block_sparse_moe.experts.2.w3.weight",
    "model.layers.1.block_sparse_moe.experts.3.w1.weight",
    "model.layers.1.block_sparse_moe.experts.3.w2.weight",
    "model.layers.1.block_sparse_moe.experts.3.w3.weight",
    "model.layers.1.block_sparse_moe.routed_expert_norm.weight",
    "model.layers.1.block_sparse_moe.routed_expert_up_proj.weight",
    "model.layers.1.block_sparse_moe.shared_experts.gate_proj.weight",
    "model.layers.1.block_sparse_moe.shared_experts.down_proj.weight",
    "model.layers.1.block_sparse_moe.shared_experts.up_proj.weight",
    "model.layers.1.input_layernorm.weight",
    "model.layers.1.post_attention_layernorm.weight",
    "model.layers.1.self_attention_res_norm.weight",
    "model.layers.1.self_attention_res_proj.weight",
    "model.layers.1.mlp_res_norm.weight",
    "model.layers.1.mlp_res_proj.weight",
    "model.norm.weight",
    "lm_head.weight",
    "model.output_attn_res_norm.weight",
    "model.output_attn_res_proj.weight",
    "vision_tower.patch_embed.pos_emb.weight",
    "vision_tower.patch_embed.proj.weight",
    "vision_tower.encoder.blocks.0.norm0.weight",
    "vision_tower.encoder.blocks.0.norm1.weight",
    "vision_tower.encoder.blocks.0.wq.weight",
    "vision_tower.encoder.blocks.0.wk.weight",
    "vision_tower.encoder.blocks.0.wv.weight",
    "vision_tower.encoder.blocks.0.wo.weight",
    "vision_tower.encoder.blocks.0.mlp.fc0.weight",
    "vision_tower.encoder.blocks.0.mlp.fc1.weight",
    "vision_tower.encoder.final_layernorm.weight",
    "mm_projector.proj.0.weight",
    "mm_projector.proj.2.weight",
    "mm_projector.post_norm.weight"};

// Tensors that are no parameter have numbers behind them: of the pixels 1000 (k3.md §6.6), of the
// cotangents ours.
std::uint64_t number_of(std::string_view name) {
  if (name == "pixels") return 1000;
  if (name == "cotangents/text") return 2000;
  if (name == "cotangents/vision") return 2001;
  if (name == "cotangents/multimodal") return 2002;
  name.remove_prefix(std::string_view("params/").size());
  for (std::size_t i = 0; i < kParameters.size(); ++i)
    if (kParameters[i] == name) return i;
  return 3000;  // no tensor of this model
}

// SplitMix64 (Steele, Lea, Flood 2014) of (i << 32) + j, to [-1, 1) in steps of 2^-52: exact.
double unit_hash(std::uint64_t i, std::uint64_t j) {
  std::uint64_t z = (i << 32) + j + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53 * 2 - 1;
}

// ln x for x >= 1 by + - * / alone, the same bits on every machine: halved below 3/2, then
// 2 atanh((x-1)/(x+1)), |argument| <= 1/5, whose first dropped term is below 2^-98.
double logarithm(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  int halvings = 0;
  for (; x > 1.5; x /= 2) ++halvings;
  const double t = (x - 1) / (x + 1);
  double sum = 0;
  for (int n = 41; n >= 1; n -= 2) sum = sum * t * t + 1.0 / n;
  return 2 * t * sum + halvings * kLn2;
}

double value_of(std::string_view name, double u, double width) {
  const double root3 = std::sqrt(3.0);
  const bool norm = name.find("norm") != name.npos && name.ends_with(".weight");
  if (norm) return 1 + 0.4 * u;
  if (name.ends_with("A_log")) return 0.5 * logarithm(1 + 7.5 * (u + 1));
  if (name.ends_with("dt_bias")) return u;
  if (name.ends_with("_res_proj.weight")) return 0.5 * root3 * u;
  if (!name.starts_with("params/") || name.find("embed_tokens") != name.npos ||
      name.find("pos_emb") != name.npos)
    return root3 * u;
  return 1.5 * root3 * u / std::sqrt(width);
}

void put(std::initializer_list<double> values, std::span<double> out) {
  std::size_t i = 0;
  for (double& x : out) x = values.begin()[i++ % values.size()];
}

void hash_unit(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  if (name == "text_tokens") return put({1, 2, 3, 4, 9, 17, 5, 30}, out);
  if (name == "mm_tokens") return put({1, 2, 7, 7, 7, 7, 3, 4, 5}, out);
  if (name.ends_with("e_score_correction_bias")) return put({-0.15, 0.05, 0.15, -0.05}, out);
  const std::uint64_t i = number_of(name);
  for (std::size_t j = 0; j < out.size(); ++j)
    out[j] = value_of(name, unit_hash(i, static_cast<std::uint64_t>(d.first) + j),
                      static_cast<double>(out.size()));
}

// Below norms: what enters the model by 1e-3, what enters a latent, a head or a projector's norm by
// 1e-2. A mean square is then near the eps that is added to it.
void hash_tiny(const RowDraw& d, std::span<double> out) {
  hash_unit(d, out);
  const std::string& name = d.spec.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool enters = has("embed_tokens") || has("pos_emb") || name == "pixels";
  const bool latent = has("q_a_proj") || has("kv_a_proj") || has("layers.0.self_attn.q_proj") ||
                      has("layers.0.self_attn.k_proj") || has("layers.0.self_attn.v_proj") ||
                      has("routed_expert_down_proj") || has("mm_projector.proj.2");
  for (double& x : out) x *= enters ? 1e-3 : latent ? 1e-2 : 1;
}

const Fill kHashUnit{"hash_unit", "every path is numerically visible", hash_unit};
const Fill kHashTiny{"hash_tiny", "every eps is", hash_tiny};

Options model(std::initializer_list<std::pair<const std::string, std::string>> more) {
  Options o{{"full", "1"},    {"block", "1"},     {"dense", "1"},      {"ffn", "32"},
            {"heads", "2"},   {"kda", "4"},       {"conv", "3"},       {"ql", "8"},
            {"kl", "8"},      {"nope", "4"},      {"rope", "4"},       {"vd", "4"},
            {"experts", "4"}, {"topk", "2"},      {"ehid", "8"},       {"latent", "8"},
            {"shared", "8"},  {"three", "1"},     {"images", "1x4x4"}, {"v_L", "1"},
            {"v_H", "3"},     {"v_D", "16"},      {"v_Q", "24"},       {"v_F", "32"},
            {"v_M", "2"},     {"v_N", "2"},       {"v_J", "64"},       {"v_P", "2"},
            {"loss", "1"},    {"v_qkv", "split"}, {"taps", "1"}};
  for (const auto& [name, value] : more) o.set(name, value);
  return o;
}

std::string_view exempt(const Case&, std::string_view tensor, std::string_view trivial) {
  if (tensor == "loss" && trivial == "mean") return "one element is its own mean";
  if (tensor.find("layers.0.self_attention_res_") != tensor.npos)
    return "the first read has an empty bank, and reads nothing";
  if (tensor.ends_with("e_score_correction_bias"))
    return "the correction bias moves the choice only: no gradient";
  if (tensor.find(".experts.") != tensor.npos) return "an expert may have no token";
  if (trivial == "other_seed" || trivial == "history")
    return "the model is the same under every seed";
  return "";
}

const Register strengthened{CaseSet{
    .op = "decoder",
    .what = "The strengthened parity model: text, vision and both, intermediates and gradients",
    .lane = Lane::Smoke,
    .sizes =
        {{{"B", 1, {}}, {"T", 9, {}}, {"D", 16, {}}, {"V", 32, {}}, {"L", 2, {}}, {"S", 8, {}}}},
    .dtypes = {Dtype::F32},
    .fills = {kHashUnit, kHashTiny},
    .options = {model({}), model({{"topk", "1"}, {"renorm", "0"}})},
    .exempt = exempt,
}};

}  // namespace
}  // namespace parity
