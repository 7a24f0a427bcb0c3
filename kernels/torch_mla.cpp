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

// 0.1 m ln(factor) + 1 (arXiv 2309.00071, §3.4, with DeepSeek's weights m).
double temperature(const Case& c, const char* weight) {
  return 0.1 * c.options.real(weight, 1) * std::log(c.options.real("yarn", 1)) + 1;
}

// Turns per token of each pair; YaRN slows the pairs whose wave is long against the context.
at::Tensor frequencies(const Case& c, std::int64_t R) {
  const double theta = c.options.real("theta", 10000), factor = c.options.real("yarn", 1);
  const at::Tensor pairs = at::arange(0, R / 2, at::kDouble);
  const at::Tensor plain = at::exp(pairs * (-2 * std::log(theta) / static_cast<double>(R)));
  if (factor <= 1) return plain;
  constexpr double kTurn = 6.283185307179586;
  const auto pair_of = [&](const char* name,
                           double usual) {  // that turns so often over the context
    return static_cast<double>(R) / (2 * std::log(theta)) *
           std::log(c.options.real("original", 4096) / (kTurn * c.options.real(name, usual)));
  };
  const double low = std::fmax(std::floor(pair_of("beta_fast", 32)), 0);
  const double high = std::fmin(std::ceil(pair_of("beta_slow", 1)), static_cast<double>(R - 1));
  const at::Tensor slowed = ((pairs - low) / (high == low ? 0.001 : high - low)).clamp(0, 1);
  return at::lerp(plain, plain / factor, slowed);
}

// Cosines and sines [B or 1, T, R/2].
void set_turns(const Case& c, const torch_module::Named& in, model::MlaConfig& m) {
  const std::string rope = c.options.get("rope", "");
  if (rope.empty()) return;
  m.interleaved = rope != "half";
  const at::Tensor angles = rope == "angles" ? in.at("rope_angle").unsqueeze(0)
                                             : in.at("position_ids").to(at::kDouble).unsqueeze(-1) *
                                                   frequencies(c, m.rotary);
  const double factor =
      rope == "angles" ? 1 : temperature(c, "mscale") / temperature(c, "mscale_all");
  m.cos = angles.cos() * factor;
  m.sin = angles.sin() * factor;
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
                     .scale = std::pow(static_cast<double>(N + R), -0.5) *
                              std::pow(temperature(c, "mscale_all"), 2)};
  m.scale = c.options.real("scale", m.scale);
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
  return c.options.flag("taps") ? "no taps" : "";
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
