// mla as LibTorch's eager operations.
#include <ATen/ATen.h>
#include <cmath>

#include "harness/torch/module.hpp"
#include "references/model/mla.hpp"

namespace parity {
namespace {

// Causal within a document; every token sees the cache.
at::Tensor causal(const Case& c, std::int64_t T, std::int64_t P) {
  const Size& size = *c.sizes.find("T");
  std::vector<at::Tensor> blocks;
  for (const std::int64_t length : size.parts.empty() ? std::vector{T} : size.parts)
    if (length > 0) blocks.push_back(at::ones({length, length}, at::kBool).tril());
  return at::cat({at::ones({T, P}, at::kBool), at::block_diag(blocks).to(at::kBool)}, 1)
      .view({1, 1, T, P + T});
}

// Cosines and sines [B or 1, T, R/2] of a plain rotation.
void set_turns(const Case& c, const torch_module::Named& in, model::MlaConfig& m) {
  const std::string rope = c.options.get("rope", "");
  if (rope.empty()) return;
  m.interleaved = rope != "half";
  at::Tensor angles;
  if (rope == "angles") {
    angles = in.at("rope_angle").unsqueeze(0);
  } else {
    const at::Tensor steps =
        at::arange(0, m.rotary, 2, at::kDouble) / static_cast<double>(m.rotary);
    angles = in.at("position_ids").to(at::kDouble).unsqueeze(-1) *
             at::exp(steps * -std::log(c.options.real("theta", 10000)));
  }
  m.cos = angles.cos();
  m.sin = angles.sin();
}

torch_module::Named module(const Case& c, const torch_module::Named& in) {
  const at::Tensor x = in.at("x");
  const std::int64_t T = x.size(1), P = c.sizes.get("P", 0), R = c.sizes["R"], N = c.sizes["N"];
  model::MlaConfig m{.prefix = "params/",
                     .heads = c.sizes["H"],
                     .nope = N,
                     .rotary = R,
                     .value = c.sizes["V"],
                     .eps = c.options.real("eps", 1e-6),
                     .scale = c.options.real("scale", 1 / std::sqrt(static_cast<double>(N + R)))};
  m.absorb = c.options.flag("absorb");
  m.leak = c.options.get("masked", "") == "leak";
  const std::string mask = c.options.get("mask", "");
  if (mask == "given")
    m.allowed = in.at("mask_allowed").to(at::kBool);
  else if (mask != "full")
    m.allowed = causal(c, T, P);
  set_turns(c, in, m);
  if (P > 0) m.cached_latent = in.at("cache/kv_latent"), m.cached_k_r = in.at("cache/k_r");
  return {{"y", model::mla(x, in, m)}};
}

std::string refuses(const Case& c, const Options&) {
  if (c.options.flag("taps")) return "no taps";
  return c.options.real("yarn", 1) > 1 ? "no YaRN" : "";
}

KernelDef eager(std::string_view name, Dtype dtype) {
  KernelDef def = torch_module::candidate<module>("mla", name, dtype);
  def.refuses = refuses;
  return def;
}

const Register f64{eager("mla.torch_f64", Dtype::F64)};
const Register f32{eager("mla.torch_f32", Dtype::F32)};
const Register bf16{eager("mla.torch_bf16", Dtype::BF16)};

}  // namespace
}  // namespace parity
