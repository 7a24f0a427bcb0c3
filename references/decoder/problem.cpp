#include "references/decoder/problem.hpp"

#include <algorithm>

#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/blocks/open.hpp"
#include "references/blocks/unit_op.hpp"
#include "references/decoder/isolated.hpp"
#include "references/vision_tower/problem.hpp"

namespace parity::net {
namespace {

std::int64_t option(const Case& c, const char* name, std::int64_t otherwise = 0) {
  return c.options.integer(name, otherwise);
}

// Parameters of one kind of layer, by name below its prefix.
class Parameters {
 public:
  explicit Parameters(const Case& c) : c_(c), wide_(wide_of(c.dtype)) {}
  void matrix(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {{"O", out}, {"D", in}}, c_.dtype);
  }
  void vector(const std::string& name, std::int64_t extent) {
    add(name, {{"D", extent}}, c_.dtype);
  }
  void wide(const std::string& name, std::int64_t extent) { add(name, {{"C", extent}}, wide_); }
  void add(const std::string& name, std::vector<Dim> dims, Dtype dtype) {
    specs.push_back({.name = "params/" + prefix + name, .dtype = dtype, .dims = std::move(dims)});
  }
  std::string prefix = {};
  std::vector<TensorSpec> specs = {};

 private:
  const Case& c_;
  Dtype wide_;
};

void mla_parameters(Parameters& p, const Case& c) {
  const std::int64_t D = c.sizes["D"], H = option(c, "heads", 1), Q = option(c, "ql"),
                     C = option(c, "kl"), N = option(c, "nope"), R = option(c, "rope"),
                     V = option(c, "vd");
  if (Q > 0) {
    p.matrix("q_a_proj", Q, D);
    p.vector("q_a_layernorm.weight", Q);
    p.matrix("q_b_proj", H * (N + R), Q);
  } else {
    p.matrix("q_proj", H * (N + R), D);
  }
  p.matrix("kv_a_proj_with_mqa", C + R, D);
  p.vector("kv_a_layernorm.weight", C);
  p.matrix("kv_b_proj", H * (N + V), C);
  if (c.options.integer("mla_gate", 1) != 0) p.matrix("g_proj", H * V, D);
  p.matrix("o_proj", D, H * V);
}

void kda_parameters(Parameters& p, const Case& c) {
  const std::int64_t D = c.sizes["D"], H = option(c, "heads", 1), K = option(c, "kda"),
                     W = option(c, "conv", 4), C = H * K;
  p.wide("A_log", H);
  p.wide("dt_bias", C);
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) p.matrix(name, C, D);
  for (const char* name : {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"})
    p.add(name, {{"C", C}, {"O", 1}, {"W", W}}, c.dtype);
  p.matrix("f_a_proj", K, D);
  p.matrix("f_b_proj", C, K);
  p.matrix("b_proj", H, D);
  if (c.options.get("output", "full") == "low") {
    p.matrix("g_a_proj", K, D);
    p.matrix("g_b_proj", C, K);
  } else {
    p.matrix("g_proj", C, D);
  }
  p.vector("o_norm.weight", K);
  p.matrix("o_proj", D, C);
}

void mlp_parameters(Parameters& p, std::int64_t D, std::int64_t F) {
  p.matrix("gate_proj", F, D);
  p.matrix("up_proj", F, D);
  p.matrix("down_proj", D, F);
}

void moe_parameters(Parameters& p, const Case& c) {
  const std::string layer = p.prefix;
  const std::int64_t D = c.sizes["D"], E = option(c, "experts"), F = option(c, "ehid"),
                     L = option(c, "latent"), W = L > 0 ? L : D;
  p.matrix("gate", E, D);
  p.wide("gate.e_score_correction_bias", E);
  for (std::int64_t e = 0; e < E; ++e) {
    p.prefix = layer + "experts." + std::to_string(e) + ".";
    p.matrix("w1", F, W);
    p.matrix("w2", W, F);
    p.matrix("w3", F, W);
  }
  p.prefix = layer;
  if (L > 0) {
    p.matrix("routed_expert_down_proj", L, D);
    p.vector("routed_expert_norm.weight", L);
    p.matrix("routed_expert_up_proj", D, L);
  }
  p.prefix = layer + "shared_experts.";
  if (option(c, "shared") > 0) mlp_parameters(p, D, option(c, "shared"));
}

std::vector<Dim> dims(const Case& c, std::vector<Dim> behind) {
  std::vector<Dim> all = {{"B", c.sizes.get("B", 1)}, {"T", c.sizes["T"]}};
  for (Dim& dim : behind) all.push_back(std::move(dim));
  return all;
}

std::int64_t rows(const Case& c) { return c.sizes.get("B", 1) * c.sizes["T"]; }

}  // namespace

bool has_images(const Case& c) { return !c.options.get("images", "").empty(); }

Case vision_case(const Case& c) {
  Case tower;
  tower.op = "vision_tower";
  tower.dtype = c.dtype;
  for (const char* size : {"L", "D", "H", "Q", "F", "P", "M", "N", "J"})
    if (const std::int64_t extent = option(c, (std::string("v_") + size).c_str()); extent > 0)
      tower.sizes.set({size, extent, {}});
  tower.sizes.set({"O", c.sizes["D"], {}});
  tower.options.set("grids", c.options.get("images", ""));
  for (const char* name : {"qkv", "layout", "eps"})
    if (const std::string value = c.options.get(std::string("v_") + name, ""); !value.empty())
      tower.options.set(name, value);
  return tower;
}

Case with_tokens(const Case& c, std::int64_t T) {
  Case other = c;
  other.sizes.set({"T", T, {}});
  return other;
}

std::vector<std::int64_t> layer_list(const Case& c) {
  const std::string text = c.options.get("full", "all");
  std::vector<std::int64_t> list;
  if (text == "all")
    for (std::int64_t l = 0; l < c.sizes["L"]; ++l) list.push_back(l);
  else if (text != "none")
    for (const std::string& item : split(text, '+')) list.push_back(to_integer(item, "full"));
  return list;
}

bool decoder_mixes(const Case& c, std::int64_t layer) {
  return layer >= option(c, "dense", c.sizes["L"]);
}

Decoder decoder_config(const Case& c) {
  const Options& o = c.options;
  Decoder d;
  d.full.assign(static_cast<std::size_t>(c.sizes["L"]), false);
  for (const std::int64_t l : layer_list(c)) d.full.at(static_cast<std::size_t>(l)) = true;
  d.dense = option(c, "dense", c.sizes["L"]);
  d.block = option(c, "block");
  d.eps = o.real("eps", 1e-5);
  if (o.get("act", "situ") == "situ")
    d.unit = {o.real("situ_beta", 4), o.real("situ_linear_beta", 25)};
  d.batch = c.sizes.get("B", 1);
  d.tokens = c.sizes["T"];
  d.mla = {.heads = option(c, "heads", 1),
           .nope = option(c, "nope"),
           .rotary = option(c, "rope"),
           .value = option(c, "vd"),
           .q_lora = option(c, "ql") > 0,
           .gate = o.integer("mla_gate", 1) != 0,
           .eps = o.real("latent_eps", 1e-6)};
  const std::string rotary = o.get("rotary", "none");
  if (rotary != "none")
    d.mla.rope = {rotary == "half" ? Rope::Pairs::Half : Rope::Pairs::Interleaved,
                  o.real("theta", 10000),
                  {}};
  const std::int64_t K = option(c, "kda");
  d.kda = {.H = option(c, "heads", 1),
           .HV = option(c, "heads", 1),
           .K = K,
           .V = K,
           .lower = o.get("gate", "lower") == "lower",
           .bound = o.real("lb", -5),
           .low_output = o.get("output", "full") == "low",
           .norm_eps = d.eps,
           .starts = unit::sequence_starts(c)};
  d.moe = {.latent = option(c, "latent") > 0,
           .norm = option(c, "latent") > 0,
           .shared = option(c, "shared") > 0,
           .norm_eps = d.eps};
  d.moe.experts.unit = d.unit;
  Case router = c;
  router.sizes =
      Sizes{{"T", rows(c), {}}, {"E", option(c, "experts"), {}}, {"K", option(c, "topk", 1), {}}};
  if (option(c, "experts") > 0) d.moe.rule = router_rule(router);
  d.replay = c.options.flag("replay");
  return d;
}

std::vector<TensorSpec> decoder_parameters(const Case& c) {
  const std::int64_t D = c.sizes["D"], V = c.sizes["V"];
  const Decoder d = decoder_config(c);
  Parameters p(c);
  p.matrix("model.embed_tokens", V, D);
  for (std::int64_t l = 0; l < c.sizes["L"]; ++l) {
    const std::string layer = Decoder::layer(l);
    p.prefix = layer + "self_attn.";
    if (d.full[static_cast<std::size_t>(l)])
      mla_parameters(p, c);
    else
      kda_parameters(p, c);
    if (decoder_mixes(c, l)) {
      p.prefix = layer + "block_sparse_moe.";
      moe_parameters(p, c);
    } else {
      p.prefix = layer + "mlp.";
      mlp_parameters(p, D, option(c, "ffn"));
    }
    p.prefix = layer;
    p.vector("input_layernorm.weight", D);
    p.vector("post_attention_layernorm.weight", D);
    if (!d.residual_reads()) continue;
    for (const char* read : {"self_attention_res", "mlp_res"}) {
      p.vector(std::string(read) + "_norm.weight", D);
      p.matrix(std::string(read) + "_proj", 1, D);
    }
  }
  p.prefix = "";
  p.vector("model.norm.weight", D);
  if (d.residual_reads()) {
    p.vector("model.output_attn_res_norm.weight", D);
    p.matrix("model.output_attn_res_proj", 1, D);
  }
  p.matrix("lm_head", V, D);
  if (has_images(c))
    for (TensorSpec& spec : vision::inputs(vision_case(c)))
      if (spec.name.starts_with("params/")) p.specs.push_back(std::move(spec));
  return std::move(p.specs);
}

// What the parity model returns.
std::vector<TensorSpec> three_results(const Case& c) {
  const Dim B{"B", c.sizes.get("B", 1)}, V{"V", c.sizes["V"]};
  const auto spec = [&](const char* name, std::vector<Dim> extents) {
    return TensorSpec{
        .name = name, .role = Role::Output, .dtype = c.dtype, .dims = std::move(extents)};
  };
  TensorSpec vision = vision::outputs(vision_case(c)).front();
  vision.name = "vision";
  return {spec("text", {B, {"S", c.sizes["S"]}, V}), vision,
          spec("multimodal", {B, {"T", c.sizes["T"]}, V})};
}

std::vector<TensorSpec> decoder_inputs(const Case& c) {
  const bool three = c.options.flag("three");
  std::vector<TensorSpec> specs = {
      {.name = three ? "mm_tokens" : "tokens", .dtype = Dtype::I64, .dims = dims(c, {})}};
  if (three)
    specs.push_back({.name = "text_tokens",
                     .dtype = Dtype::I64,
                     .dims = {{"B", c.sizes.get("B", 1)}, {"S", c.sizes["S"]}}});
  if (has_images(c))
    for (TensorSpec& spec : vision::inputs(vision_case(c)))
      if (spec.role == Role::Input && !spec.name.starts_with("params/"))
        specs.push_back(std::move(spec));
  if (c.options.flag("loss") && !three)
    specs.push_back({.name = "labels", .dtype = Dtype::I64, .dims = dims(c, {})});
  const auto choices = [&](const char* kind) {
    for (std::int64_t l = 0; l < c.sizes["L"]; ++l)
      if (decoder_mixes(c, l))
        specs.push_back({.name = kind + std::to_string(l),
                         .role = Role::Ids,
                         .dtype = Dtype::I64,
                         .dims = {{"T", rows(c)}, {"K", option(c, "topk", 1)}}});
  };
  if (c.options.flag("order")) choices("order/layer");
  for (TensorSpec& spec : decoder_parameters(c)) specs.push_back(std::move(spec));
  if (three)
    for (TensorSpec spec : three_results(c)) {
      if (spec.name == "multimodal" && c.options.flag("loss")) continue;
      spec.name = "cotangents/" + spec.name;
      spec.role = Role::Cotangent;
      specs.push_back(std::move(spec));
    }
  else if (!c.options.flag("loss"))
    specs.push_back({.name = "cotangents/logits",
                     .role = Role::Cotangent,
                     .dtype = c.dtype,
                     .dims = dims(c, {{"V", c.sizes["V"]}})});
  if (c.options.flag("replay")) choices("ids/layer");
  if (c.options.flag("isolated"))
    for (TensorSpec& spec : isolated_inputs(c)) specs.push_back(std::move(spec));
  return specs;
}

// Intermediates of one pass and their gradients, with the images' features where it has them.
void tap_outputs(const Case& c, const std::string& at, bool images,
                 std::vector<TensorSpec>& specs) {
  const std::int64_t D = c.sizes["D"], R = rows(c);
  const Decoder d = decoder_config(c);
  const auto put = [&](const std::string& name, Role role, Dtype dtype,
                       const std::vector<Dim>& extents) {
    specs.push_back({.name = name, .role = role, .dtype = dtype, .dims = extents});
  };
  const bool alone = c.options.flag("isolated");
  const auto tap = [&](const std::string& name, Dtype dtype, const std::vector<Dim>& extents) {
    put(at + "tap/" + name, Role::Output, dtype, extents);
    const bool given =
        alone && (name.ends_with("prefix") || name.ends_with("hidden") || name.ends_with("bank"));
    if (!given) put("grads/" + at + "tap/" + name, Role::Gradient, dtype, extents);
  };
  for (std::int64_t l = 0; l < c.sizes["L"]; ++l) {
    const std::string layer = "layer" + std::to_string(l) + ".";
    for (const char* name : {"attn_read", "attn", "ffn_read"})  // in the order of computation
      tap(layer + name, c.dtype, dims(c, {{"D", D}}));
    if (decoder_mixes(c, l)) {
      const std::vector<Dim> slots = {{"R", R}, {"K", option(c, "topk", 1)}};
      if (d.replay)
        put(at + "tap/" + layer + "scores", Role::Output, wide_of(c.dtype),
            {{"R", R}, {"E", option(c, "experts")}});
      put(at + "tap/" + layer + "expert_ids", Role::Ids, Dtype::I64, slots);
      tap(layer + "route_weights", wide_of(c.dtype), slots);
      tap(layer + "routed_sum", c.dtype, {{"R", R}, {"L", d.moe.latent ? option(c, "latent") : D}});
    }
    for (const char* name : {"prefix", "hidden"}) tap(layer + name, c.dtype, dims(c, {{"D", D}}));
    if (d.residual_reads())
      tap(layer + "bank", c.dtype, {{"R", R}, {"N", l / d.block + 1}, {"D", D}});
  }
  tap("output_read", c.dtype, dims(c, {{"D", D}}));
  if (!images) return;
  tap("embeds", c.dtype, dims(c, {{"D", D}}));
  tap("vision", c.dtype, vision::outputs(vision_case(c)).front().dims);
}

std::vector<TensorSpec> decoder_outputs(const Case& c) {
  const std::int64_t steps = option(c, "steps");
  const Dtype wide = wide_of(c.dtype);
  std::vector<TensorSpec> specs;
  const auto put = [&](const std::string& name, Role role, Dtype dtype, std::vector<Dim> extents) {
    specs.push_back({.name = name, .role = role, .dtype = dtype, .dims = std::move(extents)});
  };
  for (std::int64_t step = 1; step <= std::max<std::int64_t>(steps, 1); ++step) {
    const std::string at = steps > 0 ? "step" + std::to_string(step) + "/" : "";
    if (c.options.flag("three"))
      for (TensorSpec& spec : three_results(c)) specs.push_back(std::move(spec));
    else
      put(at + "logits", Role::Output, c.dtype, dims(c, {{"V", c.sizes["V"]}}));
    if (c.options.flag("loss")) put(at + "loss", Role::Output, wide, {});
    if (steps > 0) put(at + "grad_norm", Role::Output, wide, {});
    if (c.options.flag("taps") && c.options.flag("three")) {
      tap_outputs(with_tokens(c, c.sizes["S"]), "text_pass/", false, specs);
      tap_outputs(c, "multimodal_pass/", true, specs);
    } else if (c.options.flag("taps") && step == 1) {
      tap_outputs(c, at, has_images(c), specs);
    }
    if (c.options.flag("isolated"))
      for (TensorSpec& spec : isolated_gradients(c)) specs.push_back(std::move(spec));
    if (has_images(c) && steps == 0)
      for (const TensorSpec& spec : vision::inputs(vision_case(c)))
        if (spec.name == "pixels") put("grads/inputs/pixels", Role::Gradient, c.dtype, spec.dims);
    for (std::int64_t l = 0; l < c.sizes["L"] && steps > 0; ++l)
      if (decoder_mixes(c, l) && c.options.real("balance", 0) != 0) {
        put(at + "tokens_per_expert/" + std::to_string(l), Role::Ids, Dtype::I64,
            {{"E", option(c, "experts")}});
        put(at + "expert_bias_after/" + std::to_string(l), Role::Output, wide,
            {{"E", option(c, "experts")}});
      }
    for (const TensorSpec& p : decoder_parameters(c)) {
      specs.push_back({.name = "grads/" + at + p.name,
                       .role = Role::Gradient,
                       .dtype = p.dtype,
                       .dims = p.dims,
                       .parameter = p.name.substr(7)});
      if (steps == 0) continue;
      put(at + "params_after/" + p.name.substr(7), Role::Gradient, p.dtype, p.dims);
      if (step < steps) continue;
      for (const char* moment : {"adam/exp_avg/", "adam/exp_avg_sq/"})
        put(moment + p.name.substr(7), Role::Gradient, p.dtype, p.dims);
    }
  }
  return specs;
}

bool decoder_derive(const Case& c, Tensor& tensor) {
  return has_images(c) && vision::derive(vision_case(c), tensor);
}

std::string decoder_refuses(const Case& c) {
  for (const std::int64_t l : layer_list(c))
    if (l < 0 || l >= c.sizes["L"]) return "option full names a layer that is not there";
  if (option(c, "steps") > 0 && !c.options.flag("loss")) return "steps need labels";
  if (const std::string why = isolated_refuses(c); !why.empty()) return why;
  if (c.options.flag("three") && !has_images(c)) return "the parity model has an image";
  if (has_images(c)) return vision::refuses(vision_case(c));
  return "";
}

}  // namespace parity::net
