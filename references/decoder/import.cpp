// Stored decoders: torchtitan's K3, the released K3, transformers' Kimi Linear and DeepSeek-V3.
#include <array>
#include <cctype>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/blocks/stored.hpp"
#include "references/blocks/vision.hpp"
#include "references/decoder/problem.hpp"
#include "references/moe_import.hpp"
#include "references/router_import.hpp"

namespace parity::net {
namespace {

constexpr std::string_view kParams = "params/";

using Pair = std::pair<std::string_view, std::string_view>;

// Released names and torchtitan's, longest first where one begins another.
constexpr std::array<Pair, 34> kTorchtitan{{
    {"model.embed_tokens.", "tok_embeddings."},
    {"model.norm.", "norm."},
    {"model.output_attn_res_norm.", "output_res_norm."},
    {"model.output_attn_res_proj.", "output_res_proj."},
    {"model.layers.", "layers."},
    {".input_layernorm.", ".attention_norm."},
    {".post_attention_layernorm.", ".ffn_norm."},
    {".self_attention_res_", ".attention_res_"},
    {".mlp_res_", ".ffn_res_"},
    {".mlp.gate_proj.", ".feed_forward.w1."},
    {".mlp.up_proj.", ".feed_forward.w3."},
    {".mlp.down_proj.", ".feed_forward.w2."},
    {".block_sparse_moe.", ".moe."},
    {".self_attn.q_a_proj.", ".attention.wq_a."},
    {".self_attn.q_a_layernorm.", ".attention.q_norm."},
    {".self_attn.q_b_proj.", ".attention.wq_b."},
    {".self_attn.kv_a_proj_with_mqa.", ".attention.wkv_a."},
    {".self_attn.kv_a_layernorm.", ".attention.kv_norm."},
    {".self_attn.kv_b_proj.", ".attention.wkv_b."},
    {".self_attn.f_a_proj.", ".delta_attention.forget_a."},
    {".self_attn.f_b_proj.", ".delta_attention.forget_b."},
    {".self_attn.b_proj.", ".delta_attention.beta."},
    {".self_attn.o_norm.", ".delta_attention.output_norm."},
    {".self_attn.A_log", ".delta_attention.A_log"},
    {".self_attn.dt_bias", ".delta_attention.dt_bias"},
    {".self_attn.q_proj.", ".delta_attention.q_proj."},
    {".self_attn.k_proj.", ".delta_attention.k_proj."},
    {".self_attn.v_proj.", ".delta_attention.v_proj."},
    {".self_attn.q_conv1d.", ".delta_attention.q_conv."},
    {".self_attn.k_conv1d.", ".delta_attention.k_conv."},
    {".self_attn.v_conv1d.", ".delta_attention.v_conv."},
    // Of both kinds of layers: by the layer's own.
    {".self_attn.g_proj.", ".delta_attention.output_gate."},
    {".self_attn.o_proj.", ".delta_attention.output_proj."},
    {"lm_head.", "lm_head."},
}};

std::string replaced(std::string name, std::string_view from, std::string_view to) {
  if (const std::size_t at = name.find(from); at != std::string::npos)
    name.replace(at, from.size(), to);
  return name;
}

std::string torchtitan_name(std::string name, bool full) {
  if (full) {
    name = replaced(name, ".self_attn.g_proj.", ".attention.gate.");
    name = replaced(name, ".self_attn.o_proj.", ".attention.wo.");
  }
  for (const auto& [released, theirs] : kTorchtitan) name = replaced(name, released, theirs);
  return name;
}

std::int64_t layer_of(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return -1;
  const std::size_t dot = name.find('.', kLayers.size());
  return to_integer(name.substr(kLayers.size(), dot - kLayers.size()), "layer");
}

class Names {
 public:
  Names(const StoredCase& stored, const Case& c) : stored_(stored), config_(decoder_config(c)) {
    F_ = c.options.integer("ehid", 0);
  }

  // The stored name of a released one, below params/, with a range where it is part of a tensor.
  std::string operator()(const std::string& name) const {
    if (has(name)) return name;
    if (has("language_model." + name)) return "language_model." + name;
    if (const std::string tower = "vision_encoder." + torchtitan_vision_name(name); has(tower))
      return tower;
    const std::int64_t l = layer_of(name);
    const bool full = l >= 0 && config_.full.at(static_cast<std::size_t>(l));
    const std::string other = torchtitan_name(name, full);
    if (has(other)) return other;
    const std::string layer = l < 0 ? "" : Decoder::layer(l);
    constexpr std::string_view kMoe = "block_sparse_moe.";
    if (const std::size_t at = name.find(kMoe); at != std::string::npos) {
      const std::string below = name.substr(at + kMoe.size());
      for (const std::string& prefix : {replaced(layer, "model.", "") + "moe.", layer + "mlp."}) {
        const std::string path = stored_moe_name(stored_, prefix, below, F_);
        if (holds(stored_, path)) return path.substr(kParams.size());
      }
    }
    if (const std::size_t conv = name.find("_conv1d."); conv != std::string::npos) {
      const std::int64_t channels = config_.kda.H * config_.kda.K;
      const char which = name[conv - 1];
      const std::int64_t first = which == 'q' ? 0 : which == 'k' ? channels : 2 * channels;
      return fmt::format("{}self_attn.conv1d.weight[{}:{}]", layer, first, first + channels);
    }
    return replaced(name, ".self_attn.", ".self_attn.forget_gate.");
  }

 private:
  bool has(const std::string& name) const { return holds(stored_, std::string(kParams) + name); }
  const StoredCase& stored_;
  Decoder config_;
  std::int64_t F_ = 0;
};

// Any of our names in the file: those of parameters behind "params/", "params_after/" or a moment.
std::string stored_name(const Names& names, const std::string& ours) {
  if (ours.starts_with("order/")) return "outputs/step1/tap/" + ours.substr(6) + ".expert_ids";
  for (const std::string_view behind : {"params/", "params_after/", "exp_avg/", "exp_avg_sq/"})
    if (const std::size_t at = ours.find(behind); at != std::string::npos) {
      const std::size_t end = at + behind.size();
      const std::string path = ours.substr(0, end) + names(ours.substr(end));
      const bool output = behind != "params/" && !ours.starts_with("outputs/");
      return output ? "outputs/" + path : path;
    }
  return ours;
}

// Integers in a text such as "[3, 7]".
std::string joined_integers(const std::string& text) {
  std::string joined;
  bool inside = false;
  for (const char letter : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (digit && !inside && !joined.empty()) joined += '+';
    if (digit) joined += letter;
    inside = digit;
  }
  return joined.empty() ? "none" : joined;
}

// Which of a list of quoted words is "full_attention".
std::string full_layers(const std::string& text) {
  std::string joined;
  std::int64_t layer = 0;
  for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
    const std::size_t end = text.find('"', at + 1);
    if (text.substr(at + 1, end - at - 1) == "full_attention")
      joined += (joined.empty() ? "" : "+") + std::to_string(layer);
    ++layer;
    at = end;
  }
  return joined.empty() ? "none" : joined;
}

struct Reader {
  const StoredCase& stored;
  Case& c;

  std::int64_t first(std::initializer_list<const char*> names, std::int64_t otherwise) const {
    for (const char* name : names)
      if (const std::string text = stored_text(stored, name); !text.empty() && text != "none")
        return stored_integer(stored, name, otherwise);
    return otherwise;
  }
  void integer(const char* option, std::initializer_list<const char*> names) const {
    if (const std::int64_t x = first(names, 0); x > 0) c.options.set(option, std::to_string(x));
  }
  void real(const char* option, std::initializer_list<const char*> names, double usual) const {
    for (const char* name : names)
      if (!stored_text(stored, name).empty()) {
        if (const double x = stored_real(stored, name, usual); x != usual)
          c.options.set(option, shortest(x));
        return;
      }
  }
};

void import_layers(const Reader& r) {
  const StoredCase& stored = r.stored;
  Options& o = r.c.options;
  if (const std::string at = stored_text(stored, "mla_at"); !at.empty())
    o.set("full", joined_integers(at));
  else if (const std::string types = stored_text(stored, "layer_types"); !types.empty())
    o.set("full", full_layers(types));
  r.integer("block", {"bs", "attn_res_block_size"});
  r.integer("ffn", {"ffn", "ffn_hidden", "intermediate_size"});
  r.integer("heads", {"heads", "num_attention_heads"});
  r.integer("kda", {"kda_head", "linear_head_dim"});
  r.integer("conv", {"conv", "linear_conv_kernel_dim"});
  r.integer("ql", {"ql", "q_lora_rank"});
  r.integer("kl", {"kl", "kv_lora_rank"});
  r.integer("nope", {"nope", "qk_nope_head_dim"});
  r.integer("rope", {"rope", "qk_rope_head_dim"});
  r.integer("vd", {"vd", "v_head_dim"});
  r.real("eps", {"eps", "rms_norm_eps"}, 1e-5);
  r.real("latent_eps", {"latent_norm_eps", "latent_eps"}, 1e-6);
  r.real("lb", {"kda_lower_bound"}, -5);
  r.real("situ_beta", {"situ_beta"}, 4);
  r.real("situ_linear_beta", {"situ_linear_beta"}, 25);
  const bool transformers = stored_text(stored, "source").starts_with("transformers");
  if (!transformers) return;
  o.set("act", "silu");
  o.set("mla_gate", "0");
  if (!stored_text(stored, "linear_head_dim").empty()) {
    o.set("gate", "softplus");
    o.set("output", "low");
  }
  if (!stored_text(stored, "rope_theta").empty()) {
    o.set("rotary", stored_integer(stored, "rope_interleave", 1) != 0 ? "interleaved" : "half");
    r.real("theta", {"rope_theta"}, 10000);
  }
}

void import_mixture(const Reader& r, const std::string& source) {
  const StoredCase& stored = r.stored;
  Case& c = r.c;
  r.integer("experts", {"experts", "n_routed_experts", "num_local_experts"});
  if (c.options.integer("experts", 0) == 0) return;
  r.integer("topk", {"topk", "num_experts_per_tok"});
  r.integer("ehid", {"ehid", "moe_intermediate_size"});
  r.integer("latent", {"latent"});
  const std::int64_t shared = r.first({"shared", "n_shared_experts"}, 0);
  if (shared > 0) c.options.set("shared", std::to_string(shared * c.options.integer("ehid", 0)));
  c.options.set("dense", std::to_string(r.first({"first_k_dense_replace"}, 1)));
  Case rule = c;
  rule.sizes = Sizes{{"K", c.options.integer("topk", 1), {}}};
  import_rule(stored, rule);
  c.options = rule.options;
  if (source.find("released modelling code") != std::string::npos) c.options.set("empty", "none");
}

// "torch.optim.AdamW(lr 1e-2, betas (0.9, 0.95), eps 1e-8, weight_decay 0.1, ...": the numbers
// behind the words.
void import_steps(const Reader& r) {
  const std::int64_t steps = r.first({"steps"}, 0);
  if (steps == 0) return;
  r.c.options.set("steps", std::to_string(steps));
  const std::string text = stored_text(r.stored, "optimizer");
  const auto behind = [&](std::string_view word, const char* option, double usual) {
    const std::size_t at = text.find(word);
    if (at == std::string::npos) return std::string::npos;
    const std::size_t first = text.find_first_of("0123456789", at + word.size());
    const std::size_t last = text.find_first_not_of("0123456789.e-+", first);
    if (const double x = to_real(text.substr(first, last - first), option); x != usual)
      r.c.options.set(option, shortest(x));
    return last;
  };
  behind("lr ", "lr", 1e-2);
  behind("betas (", "beta1", 0.9);
  if (const std::size_t at = text.find("betas ("); at != std::string::npos) {
    const std::size_t comma = text.find(',', at), first = text.find_first_of("0123456789", comma);
    const std::size_t last = text.find_first_not_of("0123456789.e-+", first);
    if (const double x = to_real(text.substr(first, last - first), "beta2"); x != 0.95)
      r.c.options.set("beta2", shortest(x));
  }
  behind(" eps ", "adam_eps", 1e-8);
  behind("weight_decay ", "decay", 0.1);
  if (const double x = stored_real(r.stored, "load_balance_coeff", 0); x != 0)
    r.c.options.set("balance", shortest(x));
}

std::vector<std::int64_t> shape_of(const StoredCase& stored,
                                   std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const std::string path = std::string(kParams) + name; holds(stored, path))
      return stored_shape(stored, path);
  throw GoldenError(fmt::format("{}: {} has no {}", stored.file, stored.name, *names.begin()));
}

// The two-layer model of the frozen golden (k3.md §1.3), whose sizes its cases do not repeat.
void import_parity_model(const Reader& r) {
  const Options fixed{{"full", "1"},  {"block", "1"}, {"ffn", "32"},   {"heads", "2"},
                      {"kda", "4"},   {"conv", "3"},  {"ql", "8"},     {"kl", "8"},
                      {"nope", "4"},  {"rope", "4"},  {"vd", "4"},     {"experts", "2"},
                      {"topk", "1"},  {"ehid", "8"},  {"latent", "8"}, {"shared", "8"},
                      {"dense", "1"}, {"three", "1"}, {"v_L", "1"},    {"v_H", "3"}};
  for (const auto& [name, value] : fixed.map()) r.c.options.set(name, value);
  if (stored_integer(r.stored, "renormalise_top1", 1) == 0) r.c.options.set("renorm", "0");
  r.c.sizes.set({"L", 2, {}});
  r.c.sizes.set({"S", stored_shape(r.stored, "inputs/text_tokens").at(1), {}});
}

void import_images(const Reader& r) {
  const StoredCase& stored = r.stored;
  Options& o = r.c.options;
  const auto set = [&](const char* option, std::int64_t x) { o.set(option, std::to_string(x)); };
  std::string grids;
  const std::vector<double> thw = stored.read("inputs/grid_thw").widened();
  for (std::size_t i = 0; i + 2 < thw.size(); i += 3)
    grids += fmt::format("{}{}x{}x{}", i > 0 ? "+" : "", thw[i], thw[i + 1], thw[i + 2]);
  o.set("images", grids);
  const std::string other = "vision_encoder.layers.0.";
  const bool torchtitan = holds(stored, std::string(kParams) + other + "norm1.weight");
  const auto shape = [&](const char* name, const char* theirs) {
    return shape_of(stored, {name, theirs});
  };
  const auto wo =
      shape("vision_tower.encoder.blocks.0.wo.weight", "vision_encoder.layers.0.attn.proj.weight");
  const auto table = shape("vision_tower.patch_embed.pos_emb.weight", "vision_encoder.pos_embed");
  const auto patch =
      shape("vision_tower.patch_embed.proj.weight", "vision_encoder.patch_embed.weight");
  set("v_D", wo.at(0));
  set("v_Q", wo.at(1));
  set("v_F", shape("vision_tower.encoder.blocks.0.mlp.fc0.weight",
                   "vision_encoder.layers.0.mlp.linear_fc1.weight")
                 .at(0));
  set("v_M", table.at(0));
  set("v_N", table.at(1));
  set("v_J", shape("mm_projector.proj.0.weight", "vision_encoder.projector.linear_1.weight").at(0));
  std::int64_t elements = 1, side = 1;
  for (std::size_t i = 1; i < patch.size(); ++i) elements *= patch[i];
  while (3 * side * side < elements) ++side;
  set("v_P", side);
  r.integer("v_L", {"vit_layers"});
  r.integer("v_H", {"vit_heads"});
  if (torchtitan) {
    o.set("v_qkv", "split");
    o.set("v_layout", "padded");
    o.set("v_eps", shortest(stored_real(stored, "vit_norm_eps", 1e-5)));
  }
  if (const std::int64_t id = stored_integer(stored, "image_id", 7); id != 7) set("image_id", id);
}

}  // namespace

ImportedCase decoder_import(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = stored_text(stored, "op");
  c.dtype = stored_dtype(stored);
  const Reader r{stored, c};
  const std::string source = stored_text(stored, "source");
  const bool three = holds(stored, "inputs/mm_tokens");
  const std::vector<std::int64_t> tokens =
      stored_shape(stored, three ? "inputs/mm_tokens" : "inputs/tokens");
  const std::vector<std::int64_t> table =
      shape_of(stored, {"model.embed_tokens.weight", "tok_embeddings.weight",
                        "language_model.model.embed_tokens.weight"});
  c.sizes = Sizes{{"B", tokens.at(0), {}},
                  {"T", tokens.at(1), {}},
                  {"D", table.at(1), {}},
                  {"V", table.at(0), {}},
                  {"L", r.first({"layers", "num_hidden_layers"}, 1), {}}};
  import_layers(r);
  if (three) import_parity_model(r);
  import_mixture(r, source);
  if (holds(stored, "inputs/pixels")) import_images(r);
  import_steps(r);
  if (holds(stored, "inputs/labels")) c.options.set("loss", "1");
  if (stored_text(stored, "note").find("labels are shifted inside the loss") != std::string::npos)
    c.options.set("shift", "1");
  // Intermediates are kept by the float64 cases only.
  for (const std::string& path : stored.paths) {
    if (path.find("/tap/") != std::string::npos) c.options.set("taps", "1");
    if (path.ends_with(".expert_ids") && !three) c.options.set("order", "1");
  }
  const Names names(stored, c);
  import_composite(stored, registry().op_or_throw(c.op), imported,
                   [&](const std::string& ours) { return stored_name(names, ours); });
  // After a step of Adam, parameters whose gradient is rounding noise have moved by the whole
  // learning rate, either way, and what the next step does to single parameters is no longer a
  // matter of rounding. In less than fp64, loss and logits are what is compared of later steps.
  if (c.dtype != Dtype::F64)
    for (std::int64_t step = 2; step <= c.options.integer("steps", 0); ++step) {
      const std::string at = fmt::format("step{}/", step);
      std::erase_if(imported.results, [&](const auto& result) {
        const bool kept = result.first == at + "loss" || result.first == at + "logits";
        return (result.first.starts_with(at) && !kept) || result.first.starts_with("grads/" + at) ||
               result.first.starts_with("adam/");
      });
    }
  return imported;
}

}  // namespace parity::net
