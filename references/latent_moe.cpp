// latent_moe and moe: a mixture of experts with its router (blocks/moe.hpp), by tokens T, width D,
// latent width L (latent_moe only), experts E of width F, choices K and shared width S (absent: no
// shared experts).
//   in   x [T,D]; parameters by their released names: gate.weight [E,D],
//        gate.e_score_correction_bias [E] (bias=0: none), experts.<e>.{w1,w3,w2}.weight,
//        routed_expert_{down_proj,norm,up_proj}.weight, shared_experts.{gate,up,down}_proj.weight
//        replay=1  ids [T,K]: the choice is given
//   out  y [T,D], tokens_per_expert [E], ids [T,K], routed_sum [T,L]: u before the latent norm,
//   which
//        hides a common factor of the routing weights (k3.md §3.2)
//        taps=1    what lies between, and the gradients of it; slots in the order of `order` [T,K]
//   options of the router; act=situ (latent_moe's usual) or silu (moe's), situ_beta (4),
//        situ_linear_beta (25), norm=0, norm_eps (1e-5)
// A choice within the gate's noise leaves its token open.
#include <algorithm>

#include "references/blocks/moe_specs.hpp"
#include "references/blocks/open.hpp"
#include "references/moe_import.hpp"

namespace parity::net {
namespace {

Moe layer_of(const Case& c) {
  const bool latent = c.op == "latent_moe";
  const Options& o = c.options;
  Moe layer{.rule = router_rule(c),
            .latent = latent,
            .norm = latent && o.integer("norm", 1) != 0,
            .shared = c.sizes.get("S", 0) > 0,
            .norm_eps = o.real("norm_eps", 1e-5)};
  layer.experts.unit = unit_of(c, latent ? "situ" : "silu");
  return layer;
}

std::string refuses(const Case& c) {
  const std::string act = c.options.get("act", "situ");
  if (act != "situ" && act != "silu") return "act '" + act + "' is none of situ, silu";
  return router_refusal(c);
}

std::vector<TensorSpec> inputs(const Case& c) {
  const Moe layer = layer_of(c);
  const std::int64_t T = c.sizes["T"], D = c.sizes["D"], E = c.sizes["E"];
  const std::int64_t W = layer.latent ? c.sizes["L"] : D, S = c.sizes.get("S", 0);
  const char* width = layer.latent ? "L" : "D";
  std::vector<TensorSpec> specs = {{.name = "x", .dtype = c.dtype, .dims = {{"T", T}, {"D", D}}}};
  const auto weight = [&](const std::string& name, std::vector<Dim> dims) {
    specs.push_back(
        {.name = "params/" + name + ".weight", .dtype = c.dtype, .dims = std::move(dims)});
  };
  weight("gate", {{"E", E}, {"D", D}});
  if (c.options.integer("bias", 1) != 0)
    specs.push_back({.name = "params/gate.e_score_correction_bias",
                     .dtype = wide_of(c.dtype),
                     .dims = {{"E", E}}});
  add_experts(specs, c, {width, W});
  if (layer.latent) {
    weight("routed_expert_down_proj", {{"L", W}, {"D", D}});
    if (layer.norm) weight("routed_expert_norm", {{"L", W}});
    weight("routed_expert_up_proj", {{"D", D}, {"L", W}});
  }
  if (layer.shared) {
    weight("shared_experts.gate_proj", {{"S", S}, {"D", D}});
    weight("shared_experts.up_proj", {{"S", S}, {"D", D}});
    weight("shared_experts.down_proj", {{"D", D}, {"S", S}});
  }
  for (const char* given : {"ids", "order"})
    if (c.options.flag(given == std::string_view("ids") ? "replay" : "order"))
      specs.push_back({.name = given,
                       .role = Role::Ids,
                       .dtype = Dtype::I64,
                       .dims = {{"T", T}, {"K", c.sizes["K"]}}});
  specs.push_back({.name = "cotangents/y",
                   .role = Role::Cotangent,
                   .dtype = c.dtype,
                   .dims = {{"T", T}, {"D", D}}});
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Moe layer = layer_of(c);
  const std::int64_t T = c.sizes["T"], D = c.sizes["D"], E = c.sizes["E"], K = c.sizes["K"];
  const Dim width = layer.latent ? Dim{"L", c.sizes["L"]} : Dim{"D", D};
  const Dtype wide = wide_of(c.dtype);
  std::vector<TensorSpec> specs;
  const auto result = [&](const std::string& name, Role role, Dtype dtype, std::vector<Dim> dims) {
    specs.push_back({.name = name, .role = role, .dtype = dtype, .dims = std::move(dims)});
  };
  result("y", Role::Output, c.dtype, {{"T", T}, {"D", D}});
  result("routed_sum", Role::Output, c.dtype, {{"T", T}, width});
  result("ids", Role::Ids, Dtype::I64, {{"T", T}, {"K", K}});
  result("tokens_per_expert", Role::Ids, Dtype::I64, {{"E", E}});
  if (c.options.flag("taps")) {
    const std::vector<Dim> by_slot = {{"T", T}, {"K", K}}, by_expert = {{"T", T}, {"E", E}};
    const auto tap = [&](const std::string& name, Dtype dtype, const std::vector<Dim>& dims) {
      result("tap/" + name, Role::Output, dtype, dims);
      result("grads/tap/" + name, Role::Gradient, dtype, dims);
    };
    result("tap/expert_ids", Role::Ids, Dtype::I64, by_slot);
    tap("route_weights", wide, by_slot);
    tap("router_logits", wide, by_expert);
    tap("router_scores", wide, by_expert);
    if (layer.latent) tap("latent", c.dtype, {{"T", T}, width});
    if (layer.norm) tap("routed_normed", c.dtype, {{"T", T}, width});
    if (layer.latent) tap("routed_out", c.dtype, {{"T", T}, {"D", D}});
    if (layer.shared) tap("shared_out", c.dtype, {{"T", T}, {"D", D}});
    result("grads/tap/routed_sum", Role::Gradient, c.dtype, {{"T", T}, width});
  }
  for (const TensorSpec& in : inputs(c)) {
    if (in.role != Role::Input) continue;
    if (in.name.ends_with("e_score_correction_bias") && !c.options.flag("taps")) continue;
    specs.push_back(gradient_of(in));
  }
  return specs;
}

template <class T>
void formulas(Run<T>& run) {
  const Moe layer = layer_of(run.problem());
  const Array<T>& x = run.in("x");
  MoeLayer<T> l = moe(run, x, layer);
  const std::vector<std::int64_t> order =
      run.options().flag("order") ? run.ids("order") : std::vector<std::int64_t>{};
  const std::vector<std::int64_t> by_slot = l.routing.weights.shape;
  const Array<T> ids = numbers<T>(l.routing.ids, by_slot);
  run.put("y", l.y);
  run.put("routed_sum", l.mixture.sum);
  run.put("ids", ids);
  run.put("tokens_per_expert", numbers<T>(l.routing.load, {std::ssize(l.routing.load)}));
  run.put("tap/expert_ids", arranged(l.routing, ids, order));
  run.put("tap/route_weights", arranged(l.routing, l.routing.weights, order));
  run.put("tap/router_logits", l.routing.logits);
  run.put("tap/router_scores", l.routing.scores);
  run.put("tap/latent", l.latent);
  run.put("tap/routed_normed", l.normed);
  run.put("tap/routed_out", l.routed);
  run.put("tap/shared_out", l.shared);
  if (!run.wants_gradients()) return;
  const Array<T>& dy = run.in("cotangents/y");
  const MoeGradients<T> d = moe_backward(run, x, l, dy, layer);
  run.grad("inputs/x", d.x);
  run.grad("tap/route_weights", arranged(l.routing, d.weights, order));
  run.grad("tap/router_logits", d.router.logits);
  run.grad("tap/router_scores", d.router.scores);
  run.grad("tap/latent", d.latent);
  run.grad("tap/routed_sum", d.sum);
  run.grad("tap/routed_normed", d.normed);
  run.grad("tap/routed_out", dy);
  run.grad("tap/shared_out", dy);
}

constexpr Formulas kFormulas{formulas<double>, formulas<float>};

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  Expected expected = expected_of(outputs(c), kFormulas, c, tensors, gradients);
  leave_open(
      expected, open_tokens(c, tensors, "gate", router_rule(c)),
      {"tap/router_logits", "tap/router_scores", "tap/latent", "tap/shared_out",
       "grads/params/shared_experts.gate_proj.weight", "grads/params/shared_experts.up_proj.weight",
       "grads/params/shared_experts.down_proj.weight"});
  return expected;
}

Evaluation base(const BaseRequest& r) { return evaluation_of(outputs(r.problem), kFormulas, r); }

ImportedCase import_case(const StoredCase& stored) { return import_moe(stored); }

std::vector<FaultDef> faults(bool latent) {
  std::vector<FaultDef> list = {
      {"A-MR01", "", "gradient of an expert without tokens is never written"},
      {"A-MR04", "", "shared experts weighted by 1 / routed scale"},
      {"A-MR07", "", "square expert weights are transposed"},
      {"A-MR08", "", "weights are gathered from the scores with the bias"},
      {"A-CK01", "", "experts in the order of their names as text"},
      {"P-moe-gate-up", "", "w1 and w3 change places"},
      {"P-moe-no-shared", "", "shared experts are left out"},
      {"P-moe-unweighted", "", "experts are summed without their weights"},
      {"P-moe-last-expert", "", "the last chosen expert is left out of the sum"},
      {"P-moe-dy-unweighted", "", "gradient of an expert's output without its weight"},
      {"P-moe-no-router-gradient", "", "the routing weights are detached"},
      {"P-moe-dx-router", "", "gradient of x without the router's part"},
      {"P-router-no-bias", "", "the correction bias is ignored"},
      {"P-router-gate-bf16", "", "logits are rounded to bf16"},
      {"P-router-no-renorm", "", "weights are not renormalised"},
      {"P-router-no-scale", "", "the routed scale is left out"},
      {"P-router-next", "", "the best expert is skipped: choices 2 to k + 1"},
      {.id = "A-MR02",
       .what = "rows after the last group are never written",
       .unsupported = "the reference has no padded rows; moe_experts.grouped has"},
      {.id = "A-MR03",
       .what = "combine under sequence parallelism misplaces batch rows",
       .unsupported = "needs ranks"},
      {.id = "A-MR05",
       .what = "bias of the second layer not weighted",
       .unsupported = "experts of Kimi K3 have no bias"},
      {.id = "A-MR06",
       .what = "loads of a warm-up pass stay in the counters",
       .unsupported = "shown by the router's own cases"},
      {.id = "A-MR09",
       .what = "capacity taken for the model width under tensor parallelism",
       .unsupported = "needs ranks"}};
  if (!latent) return list;
  list.insert(list.end(),
              {{"P-moe-swiglu", "", "SwiGLU in place of SiTU"},
               {"P-moe-no-linear-beta", "", "the up branch is not limited"},
               {"P-moe-no-norm", "", "the latent norm is left out"},
               {"P-moe-norm-eps", "", "latent norm with a tenth of its eps"},
               {"P-moe-norm-first", "", "each expert's output is normalised, not their sum"}});
  return list;
}

OpDef definition(std::string_view name, std::string_view what, bool latent) {
  return {.name = name,
          .what = what,
          .kind = OpKind::Composite,
          .directions = {Direction::Forward, Direction::Backward},
          .sources = {"Kimi K3 (arXiv 2607.24653)", "DeepSeek-V3 (arXiv 2412.19437)",
                      "transformers models.deepseek_v3"},
          .inputs = inputs,
          .outputs = outputs,
          .refuses = refuses,
          .reference = reference,
          .base = base,
          .import = import_case,
          .faults = faults(latent)};
}

const Register latent_op{
    definition("latent_moe", "y = up(norm(sum p_e E_e(down x))) + shared(x), routed on x", true)};
const Register plain_op{definition("moe", "y = sum p_e E_e(x) + shared(x)", false)};
const Register latent_bound{BoundDef{.op = "latent_moe", .bound = composite_bound}};
const Register plain_bound{BoundDef{.op = "moe", .bound = composite_bound}};

}  // namespace
}  // namespace parity::net
