// The decoder as LibTorch's eager operations.
#include <ATen/ATen.h>
#include <algorithm>
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
    out[layer + "scores"] = t.moe.routing.scores;
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

// Every layer on the stream that is given for it (references/decoder/isolated.hpp).
model::DecoderOutput isolated(const Case& c, const Named& in, const model::DecoderConfig& config) {
  const auto stream = [&](const std::string& at) {
    const Tensor prefix = in.at(at + "prefix").flatten(0, 1);
    const auto bank = in.find(at + "bank");
    return model::Stream{bank != in.end() ? bank->second : model::stream_of(prefix).bank, prefix};
  };
  model::DecoderOutput out;
  for (std::int64_t l = 0; l < std::ssize(config.full); ++l) {
    const model::Stream before = l == 0
                                     ? model::stream_of(model::embed(in.at("tokens"), in, config))
                                     : stream("at/layer" + std::to_string(l) + ".");
    out.after.push_back(model::decoder_layer(before, in, config, l, c.sizes.get("B", 1),
                                             &out.traces.emplace_back()));
  }
  model::Head head = model::head(stream("at/output."), in, config);
  out.output_read = std::move(head.output_read);
  out.logits = std::move(head.logits);
  return out;
}

// What can be wrong with one layer: that in the middle of those with full attention (of {3, 7, 11}:
// 7); a gate is that of the KDA layer before it.
enum class Wrong { Nothing, Scale, Read, Gate, Expert };
struct Fault {
  Wrong wrong = Wrong::Nothing;
  FaultDef def = {};
};
const std::vector<Fault> kFaults = {
    {Wrong::Scale, {"P-decoder-scale", "", "softmax of one layer a tenth too sharp"}},
    {Wrong::Read, {"P-decoder-read-order", "", "one read weighs the sources in reverse order"}},
    {Wrong::Gate, {"P-decoder-gate", "", "the decay gate of one KDA layer without its dt_bias"}},
    {Wrong::Expert,
     {"P-decoder-expert-gradient", "", "the gradient of one expert a tenth too large"}}};

struct Faulty {
  Named in;
  model::DecoderConfig config;
};

std::int64_t middle_layer(const model::DecoderConfig& config, bool full) {
  std::vector<std::int64_t> layers;
  for (std::int64_t l = 0; l < std::ssize(config.full); ++l)
    if (config.full[static_cast<std::size_t>(l)]) layers.push_back(l);
  const std::int64_t middle =
      layers.empty() ? std::ssize(config.full) / 2 : layers[layers.size() / 2];
  if (full) return middle;
  for (std::int64_t l = middle; l >= 0; --l)
    if (!config.full[static_cast<std::size_t>(l)]) return l;
  return -1;
}

void plant(Wrong wrong, Faulty& f) {
  const std::int64_t layer = middle_layer(f.config, wrong != Wrong::Gate);
  const std::string name = "params/model.layers." + std::to_string(layer) + ".";
  const auto change = [&](const std::string& below, const auto& how) {
    if (const auto at = f.in.find(name + below); at != f.in.end()) at->second = how(at->second);
  };
  switch (wrong) {
    case Wrong::Nothing:
      return;
    case Wrong::Scale:
      for (const char* queries : {"self_attn.q_b_proj.weight", "self_attn.q_proj.weight"})
        change(queries, [](const Tensor& w) { return w * 1.1; });
      return;
    case Wrong::Read:
      f.config.misread = layer;
      return;
    case Wrong::Gate:
      change("self_attn.dt_bias", [](const Tensor& b) { return b * 0; });
      return;
    case Wrong::Expert:  // the value is exact
      change("block_sparse_moe.experts.0.w2.weight",
             [](const Tensor& w) { return w + (w - w.detach()) * 0.1; });
      return;
  }
}

template <Wrong wrong>
Named module(const Case& c, const Named& given) {
  Faulty f{given, config_of(c, given.at("tokens").device())};
  plant(wrong, f);
  const Named& in = f.in;
  const model::DecoderOutput o =
      c.options.flag("isolated")
          ? isolated(c, in, f.config)
          : model::decoder(model::embed(in.at("tokens"), in, f.config), in, f.config);
  Named out{{"logits", o.logits}};
  if (c.options.flag("taps")) put_taps(out, o);
  if (const auto labels = in.find("labels"); labels != in.end())
    out["loss"] = model::cross_entropy(o.logits, labels_of(c, labels->second));
  return out;
}

torch_module::Module module_of(const Launch& l) {
  const auto fault = std::ranges::find(kFaults, l.fault, [](const Fault& f) { return f.def.id; });
  switch (fault == kFaults.end() ? Wrong::Nothing : fault->wrong) {
    case Wrong::Scale:
      return module<Wrong::Scale>;
    case Wrong::Read:
      return module<Wrong::Read>;
    case Wrong::Gate:
      return module<Wrong::Gate>;
    case Wrong::Expert:
      return module<Wrong::Expert>;
    case Wrong::Nothing:
      break;
  }
  return module<Wrong::Nothing>;
}

std::string refuses(const Case& c, const Options&) {
  if (c.options.integer("steps", 0) > 0) return "one step, without its optimizer";
  if (!c.options.get("images", "").empty()) return "text only";
  return c.options.flag("order") ? "slots in ascending order only" : "";
}

KernelDef eager(std::string_view op, std::string_view name, Dtype dtype) {
  KernelDef def = torch_module::candidate<module<Wrong::Nothing>>(op, name, dtype);
  def.refuses = refuses;
  for (const Fault& f : kFaults)
    if (op == "decoder" || f.wrong == Wrong::Scale || f.wrong == Wrong::Read)  // of MLA and dense
      def.faults.push_back(f.def);
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
