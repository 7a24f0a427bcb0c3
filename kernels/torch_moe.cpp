// Routers and mixtures of experts as LibTorch's eager operations.
#include <ATen/ATen.h>

#include "harness/torch/module.hpp"
#include "references/model/moe.hpp"

namespace parity {
namespace {

using torch_module::Named;

model::RouterConfig router_of(const Case& c) {
  const Options& o = c.options;
  return {.score = o.get("score", "sigmoid"),
          .k = c.sizes["K"],
          .groups = o.integer("groups", 1),
          .top_groups = o.integer("top_groups", 1),
          .renorm = o.integer("renorm", 1) != 0,
          .eps = o.real("renorm_eps", 1e-20),
          .scale = o.real("scale", 1)};
}

model::UnitConfig unit_of(const Case& c) {
  if (c.options.get("act", c.op == "moe" ? "silu" : "situ") == "silu") return {};
  return {.beta = c.options.real("situ_beta", 4),
          .linear_beta = c.options.real("situ_linear_beta", 25)};
}

at::Tensor given(const Named& in) {
  const auto ids = in.find("ids");
  return ids == in.end() ? at::Tensor{} : ids->second;
}

at::Tensor loads(const at::Tensor& ids, std::int64_t experts) {
  return at::bincount(ids.flatten(), {}, experts);
}

Named router(const Case& c, const Named& in) {
  const std::int64_t E = c.sizes["E"];
  model::RouterConfig config = router_of(c);
  config.prefix = "params/gate.";
  const model::Routing r = model::route(in.at("x"), in, config, given(in));
  Named out = {{"ids", r.ids},
               {"weights", r.weights},
               {"weights_by_expert", at::zeros_like(r.logits).scatter(1, r.ids, r.weights)},
               {"tokens_per_expert", loads(r.ids, E)}};
  if (r.margin.defined()) out["margin"] = r.margin;
  if (c.options.flag("aux")) {
    const at::Tensor share =
        out["tokens_per_expert"].to(r.logits.scalar_type()) / static_cast<double>(r.logits.size(0));
    out["aux_loss"] = static_cast<double>(E) * (share * at::softmax(r.logits, -1).mean(0)).sum();
  }
  return out;
}

Named layer(const Case& c, const Named& in) {
  const bool latent = c.op == "latent_moe";
  const model::MoeConfig config{.prefix = "params/",
                                .router = router_of(c),
                                .unit = unit_of(c),
                                .experts = c.sizes["E"],
                                .latent = latent,
                                .norm = latent && c.options.integer("norm", 1) != 0,
                                .shared = c.sizes.get("S", 0) > 0,
                                .norm_eps = c.options.real("norm_eps", 1e-5)};
  const model::MoeOutput out = model::moe(in.at("x"), in, config, given(in));
  return {{"y", out.y},
          {"routed_sum", out.routed_sum},
          {"ids", out.routing.ids},
          {"tokens_per_expert", loads(out.routing.ids, config.experts)}};
}

Named experts(const Case& c, const Named& in) {
  return {{"y", model::experts(in.at("x"), in.at("ids"), in.at("weights"), in, "params/experts.",
                               c.sizes["E"], unit_of(c))}};
}

template <bool narrow>
Named grouped(const Case& c, const Named& in) {
  return {{"y", model::experts_grouped(in.at("x"), in.at("ids"), in.at("weights"), in,
                                       "params/experts.", c.sizes["E"], unit_of(c), narrow)}};
}

std::string refuses_grouped(const Case& c, const Options&) {
  const bool whole = c.sizes["L"] % 8 == 0 && c.sizes["F"] % 8 == 0;
  return whole ? "" : "grouped products take widths that are multiples of 16 bytes";
}

std::string refuses(const Case& c, const Options&) {
  for (const char* extra : {"taps", "order", "gate_bf16"})
    if (c.options.flag(extra)) return "of a source's own interest";
  return "";
}

template <torch_module::Module module>
KernelDef eager(std::string_view op, std::string_view name, Dtype dtype) {
  KernelDef def = torch_module::candidate<module>(op, name, dtype);
  def.refuses = refuses;
  return def;
}

const Register router_f64{eager<router>("router", "router.torch_f64", Dtype::F64)};
const Register router_f32{eager<router>("router", "router.torch_f32", Dtype::F32)};
const Register router_bf16{eager<router>("router", "router.torch_bf16", Dtype::BF16)};
const Register latent_f64{eager<layer>("latent_moe", "latent_moe.torch_f64", Dtype::F64)};
const Register latent_f32{eager<layer>("latent_moe", "latent_moe.torch_f32", Dtype::F32)};
const Register latent_bf16{eager<layer>("latent_moe", "latent_moe.torch_bf16", Dtype::BF16)};
const Register plain_f64{eager<layer>("moe", "moe.torch_f64", Dtype::F64)};
const Register plain_f32{eager<layer>("moe", "moe.torch_f32", Dtype::F32)};
const Register plain_bf16{eager<layer>("moe", "moe.torch_bf16", Dtype::BF16)};
const Register experts_f64{eager<experts>("moe_experts", "moe_experts.torch_f64", Dtype::F64)};
const Register experts_f32{eager<experts>("moe_experts", "moe_experts.torch_f32", Dtype::F32)};
const Register experts_bf16{eager<experts>("moe_experts", "moe_experts.torch_bf16", Dtype::BF16)};
template <bool narrow>
KernelDef by_group(std::string_view name) {
  KernelDef def = torch_module::candidate<grouped<narrow>>("moe_experts", name, Dtype::BF16);
  def.what = narrow ? "LibTorch's grouped products, summed in bf16 expert after expert"
                    : "LibTorch's grouped products, gradients by autograd";
  if (narrow) {
    def.contract.name = "bf16_combine";
    def.contract.roundings.push_back({.where = "combine", .to = Dtype::BF16});
  }
  def.refuses = refuses_grouped;
  return def;
}

const Register experts_grouped{by_group<false>("moe_experts.torch_grouped_bf16")};
const Register experts_common{by_group<true>("moe_experts.torch_common_bf16")};

}  // namespace
}  // namespace parity
