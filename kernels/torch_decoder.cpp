// The decoder as LibTorch's eager operations.
#include <ATen/ATen.h>
#include <cmath>

#include "harness/text.hpp"
#include "harness/torch/module.hpp"
#include "references/model/decoder.hpp"

namespace parity {
namespace {

using at::Tensor;
using torch_module::Named;

std::vector<bool> full_layers(const Case& c) {
  const std::string text = c.options.get("full", "all");
  std::vector<bool> full(static_cast<std::size_t>(c.sizes["L"]), text == "all");
  if (text != "all" && text != "none")
    for (const std::string& item : split(text, '+'))
      full.at(static_cast<std::size_t>(to_integer(item, "full"))) = true;
  return full;
}

model::MlaConfig mla_of(const Case& c, const at::Device& device) {
  const Options& o = c.options;
  const std::int64_t T = c.sizes["T"], N = o.integer("nope", 0), R = o.integer("rope", 0);
  model::MlaConfig m{.heads = o.integer("heads", 1),
                     .nope = N,
                     .rotary = R,
                     .value = o.integer("vd", 0),
                     .eps = o.real("latent_eps", 1e-6),
                     .scale = std::pow(static_cast<double>(N + R), -0.5)};
  const auto options = at::TensorOptions().device(device);
  m.allowed = at::ones({1, 1, T, T}, options.dtype(at::kBool)).tril();
  if (const std::string pairs = o.get("rotary", "none"); pairs != "none") {
    m.interleaved = pairs == "interleaved";
    const Tensor turns = at::exp(at::arange(0, R / 2, options.dtype(at::kDouble)) *
                                 (-2 * std::log(o.real("theta", 10000)) / static_cast<double>(R)));
    const Tensor angles = at::outer(at::arange(0, T, options.dtype(at::kDouble)), turns);
    m.cos = angles.cos().unsqueeze(0), m.sin = angles.sin().unsqueeze(0);
  }
  return m;
}

model::DecoderConfig config_of(const Case& c, const at::Device& device) {
  const Options& o = c.options;
  const std::int64_t L = c.sizes["L"], B = c.sizes.get("B", 1), T = c.sizes["T"],
                     K = o.integer("kda", 0), H = o.integer("heads", 1);
  const double eps = o.real("eps", 1e-5);
  model::DecoderConfig d{.prefix = "params/",
                         .full = full_layers(c),
                         .dense = o.integer("dense", L),
                         .block = o.integer("block", 0),
                         .eps = eps,
                         .mla = mla_of(c, device)};
  if (o.get("act", "situ") == "situ")
    d.unit = {.beta = o.real("situ_beta", 4), .linear_beta = o.real("situ_linear_beta", 25)};
  d.kda = {.H = H,
           .HV = H,
           .K = K,
           .V = K,
           .lower = o.get("gate", "lower") == "lower",
           .bound = o.real("lb", -5),
           .norm_eps = eps};
  for (std::int64_t b = 0; b <= B; ++b) d.kda.starts.push_back(b * T);
  const bool latent = o.integer("latent", 0) > 0;
  d.moe = {.router = {.score = o.get("score", "sigmoid"),
                      .k = o.integer("topk", 1),
                      .groups = o.integer("groups", 1),
                      .top_groups = o.integer("top_groups", 1),
                      .renorm = o.integer("renorm", 1) != 0,
                      .eps = o.real("renorm_eps", 1e-20),
                      .scale = o.real("scale", 1)},
           .unit = d.unit,
           .experts = o.integer("experts", 0),
           .latent = latent,
           .norm = latent,
           .shared = o.integer("shared", 0) > 0,
           .norm_eps = eps};
  return d;
}

void put_taps(Named& out, const model::DecoderOutput& f) {
  for (std::size_t l = 0; l < f.after.size(); ++l) {
    const std::string layer = "tap/layer" + std::to_string(l) + ".";
    const model::LayerTrace& t = f.traces[l];
    out[layer + "attn"] = t.attn;
    out[layer + "attn_read"] = t.attn_read;
    out[layer + "ffn_read"] = t.ffn_read;
    out[layer + "prefix"] = out[layer + "hidden"] = f.after[l].prefix;
    out[layer + "bank"] = f.after[l].bank;
    if (!t.moe.y.defined()) continue;
    out[layer + "expert_ids"] = t.moe.routing.ids;
    out[layer + "route_weights"] = t.moe.routing.weights;
    out[layer + "routed_sum"] = t.moe.routed_sum;
  }
  out["tap/output_read"] = f.output_read;
}

// The labels of each row: as given, or the next token's.
Tensor labels_of(const Case& c, const Tensor& given) {
  if (!c.options.flag("shift")) return given.flatten();
  return at::constant_pad_nd(given.narrow(1, 1, given.size(1) - 1), {0, 1}, -100).flatten();
}

Named module(const Case& c, const Named& in) {
  const Tensor tokens = in.at("tokens");
  const model::DecoderConfig config = config_of(c, tokens.device());
  const model::DecoderOutput f = model::decoder(model::embed(tokens, in, config), in, config);
  Named out{{"logits", f.logits}};
  if (c.options.flag("taps")) put_taps(out, f);
  if (const auto labels = in.find("labels"); labels != in.end())
    out["loss"] = model::cross_entropy(f.logits, labels_of(c, labels->second));
  return out;
}

// The fault: the softmax of the middle layer with full attention (of {3, 7, 11}: 7) is a tenth
// too sharp.
Named too_sharp(const Case& c, const Named& in) {
  std::vector<std::size_t> layers;
  const std::vector<bool> full = full_layers(c);
  for (std::size_t l = 0; l < full.size(); ++l)
    if (full[l]) layers.push_back(l);
  Named changed = in;
  if (!layers.empty())
    for (const char* queries : {"q_b_proj", "q_proj"})
      if (const auto weight =
              changed.find("params/model.layers." + std::to_string(layers[layers.size() / 2]) +
                           ".self_attn." + queries + ".weight");
          weight != changed.end())
        weight->second = weight->second * 1.1;
  return module(c, changed);
}

torch_module::Module module_of(const Launch& l) { return l.fault.empty() ? module : too_sharp; }

std::string refuses(const Case& c, const Options&) {
  if (c.options.integer("steps", 0) > 0) return "one step, without its optimizer";
  if (!c.options.get("images", "").empty()) return "text only";
  return c.options.flag("order") ? "slots in ascending order only" : "";
}

KernelDef eager(std::string_view op, std::string_view name, Dtype dtype) {
  KernelDef def = torch_module::candidate<module>(op, name, dtype);
  def.refuses = refuses;
  def.faults = {{"P-decoder-scale", "", "softmax of one layer a tenth too sharp"}};
  def.forward = [](const Launch& l) { torch_module::forward(l, module_of(l)); };
  def.backward = [](const Launch& l) { torch_module::backward(l, module_of(l)); };
  return def;
}

const Register f64{eager("decoder", "decoder.torch_f64", Dtype::F64)};
const Register f32{eager("decoder", "decoder.torch_f32", Dtype::F32)};
const Register bf16{eager("decoder", "decoder.torch_bf16", Dtype::BF16)};
const Register stack_f64{eager("attn_res_stack", "attn_res_stack.torch_f64", Dtype::F64)};
const Register stack_f32{eager("attn_res_stack", "attn_res_stack.torch_f32", Dtype::F32)};
const Register stack_bf16{eager("attn_res_stack", "attn_res_stack.torch_bf16", Dtype::BF16)};

}  // namespace
}  // namespace parity
