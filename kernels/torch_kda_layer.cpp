// The KDA layer as LibTorch's eager operations.
#include <ATen/ATen.h>

#include "harness/torch/module.hpp"
#include "references/model/kda_layer.hpp"

namespace parity {
namespace {

torch_module::Named module(const Case& c, const torch_module::Named& in) {
  const at::Tensor x = in.at("x");
  const std::int64_t B = x.size(0), T = x.size(1);
  const Size& tokens = *c.sizes.find("T");
  model::KdaLayerConfig config{.prefix = "params/",
                               .H = c.sizes["H"],
                               .HV = c.sizes.get("HV", c.sizes["H"]),
                               .K = c.sizes["K"],
                               .V = c.sizes.get("V", c.sizes["K"]),
                               .lower = c.options.get("gate", "lower") == "lower",
                               .bound = c.options.real("lb", -5),
                               .beta_scale = c.options.real("beta", 1),
                               .norm_eps = c.options.real("eps", 1e-5),
                               .starts = {0}};
  if (tokens.parts.empty())
    for (std::int64_t b = 0; b < B; ++b) config.starts.push_back(config.starts.back() + T);
  for (const std::int64_t part : tokens.parts) config.starts.push_back(config.starts.back() + part);
  at::Tensor hidden = x;
  if (const auto mask = in.find("attention_mask"); mask != in.end())
    hidden = x * mask->second.to(x.scalar_type()).unsqueeze(-1);
  return {{"y", model::kda_layer(hidden.flatten(0, 1), in, config).view(x.sizes())}};
}

std::string refuses(const Case& c, const Options&) {
  if (c.options.integer("prefill", 0) > 0) return "no decode steps";
  return c.options.flag("taps") ? "no taps" : "";
}

KernelDef eager(std::string_view name, Dtype dtype) {
  KernelDef def = torch_module::candidate<module>("kda_layer", name, dtype);
  def.refuses = refuses;
  return def;
}

const Register f64{eager("kda_layer.torch_f64", Dtype::F64)};
const Register f32{eager("kda_layer.torch_f32", Dtype::F32)};
const Register bf16{eager("kda_layer.torch_bf16", Dtype::BF16)};

}  // namespace
}  // namespace parity
