#include "references/mla_case.hpp"

#include <algorithm>
#include <cmath>

#include "harness/text.hpp"
#include "references/blocks/stored.hpp"

namespace parity::net {
namespace {

constexpr double kReleasedEps = 1e-6;

TensorSpec input(std::string name, Dtype dtype, std::vector<Dim> dims) {
  return {.name = std::move(name), .dtype = dtype, .dims = std::move(dims)};
}

std::vector<TensorSpec> parameters(const Case& c) {
  const MlaExtents e = mla_extents(c);
  std::vector<TensorSpec> specs;
  const auto add = [&](const char* name, std::vector<Dim> dims) {
    specs.push_back(input(std::string("params/") + name + ".weight", c.dtype, std::move(dims)));
  };
  const Dim width{"D", e.D}, query{"O", e.H * (e.N + e.R)};
  const auto add_bias = [&](const char* name, Dim extent) {
    if (c.options.flag("bias"))
      specs.push_back(input(std::string("params/") + name + ".bias", c.dtype, {std::move(extent)}));
  };
  if (e.Q > 0) {
    add("q_a_proj", {{"Q", e.Q}, width});
    add_bias("q_a_proj", {"Q", e.Q});
    add("q_a_layernorm", {{"Q", e.Q}});
    add("q_b_proj", {query, {"Q", e.Q}});
  } else {
    add("q_proj", {query, width});
  }
  add("kv_a_proj_with_mqa", {{"O", e.C + e.R}, width});
  add_bias("kv_a_proj_with_mqa", {"O", e.C + e.R});
  add("kv_a_layernorm", {{"C", e.C}});
  add("kv_b_proj", {{"O", e.H * (e.N + e.V)}, {"C", e.C}});
  if (c.options.flag("gate")) add("g_proj", {{"O", e.H * e.V}, width});
  add("o_proj", {width, {"O", e.H * e.V}});
  add_bias("o_proj", width);
  return specs;
}

// Intermediates as the sources tap them, and whether they have a gradient of their own.
struct Tap {
  const char* name;
  std::vector<Dim> dims;
  bool gradient = true;
};
std::vector<Tap> taps(const Case& c) {
  const MlaExtents e = mla_extents(c);
  const Dim B{"B", e.B}, T{"T", e.T}, S{"S", e.P + e.T}, H{"H", e.H};
  std::vector<Tap> list;
  if (e.Q > 0) {
    list.push_back({"q_a", {B, T, {"Q", e.Q}}});
    list.push_back({"q_latent", {B, T, {"Q", e.Q}}});
  }
  list.push_back({"q", {B, T, {"O", e.H * (e.N + e.R)}}});
  list.push_back({"kv_a", {B, T, {"O", e.C + e.R}}});
  list.push_back({"kv_latent", {B, T, {"C", e.C}}});
  if (!c.options.flag("absorb")) list.push_back({"kv", {B, S, {"O", e.H * (e.N + e.V)}}});
  list.push_back({"probs", {B, H, T, S}, false});
  list.push_back({"lse", {B, H, T}, false});
  list.push_back({"attn_out", {B, T, {"O", e.H * e.V}}});
  if (c.options.flag("gate")) list.push_back({"gate_logit", {B, T, {"O", e.H * e.V}}});
  list.push_back({"gated_out", {B, T, {"O", e.H * e.V}}});
  if (const std::string rope = c.options.get("rope", ""); rope == "interleaved" || rope == "half") {
    list.push_back({"cos", {B, T, {"R", e.R}}, false});
    list.push_back({"sin", {B, T, {"R", e.R}}, false});
  }
  return list;
}

}  // namespace

MlaExtents mla_extents(const Case& c) {
  const Size& T = *c.sizes.find("T");
  const auto size = [&](const char* name) { return c.sizes.get(name, 0); };
  return {.B = c.sizes.get("B", 1),
          .T = T.extent,
          .D = size("D"),
          .H = c.sizes.get("H", 1),
          .Q = size("Q"),
          .C = size("C"),
          .N = size("N"),
          .R = size("R"),
          .V = size("V"),
          .P = size("P"),
          .documents = T.parts.empty() ? std::vector{T.extent} : T.parts};
}

Mla mla_config(const Case& c) {
  const MlaExtents e = mla_extents(c);
  const Options& o = c.options;
  const std::string rope = o.get("rope", "");
  Mla m{.heads = e.H, .nope = e.N, .rotary = e.R, .value = e.V};
  m.q_lora = e.Q > 0, m.gate = o.flag("gate"), m.absorb = o.flag("absorb");
  m.eps = o.real("eps", kReleasedEps);
  m.scale = o.real("scale", 0);
  if (!rope.empty()) m.rope.pairs = rope == "half" ? Rope::Pairs::Half : Rope::Pairs::Interleaved;
  m.rope.theta = o.real("theta", m.rope.theta);
  m.rope.yarn = {.factor = o.real("yarn", 1),
                 .original = o.real("original", m.rope.yarn.original),
                 .beta_fast = o.real("beta_fast", m.rope.yarn.beta_fast),
                 .beta_slow = o.real("beta_slow", m.rope.yarn.beta_slow),
                 .mscale = o.real("mscale", m.rope.yarn.mscale),
                 .mscale_all = o.real("mscale_all", m.rope.yarn.mscale_all)};
  return m;
}

std::vector<TensorSpec> mla_inputs(const Case& c) {
  const MlaExtents e = mla_extents(c);
  const Dim B{"B", e.B}, T{"T", e.T};
  std::vector<TensorSpec> specs = {input("x", c.dtype, {B, T, {"D", e.D}})};
  for (TensorSpec& spec : parameters(c)) specs.push_back(std::move(spec));
  if (e.P > 0) {
    specs.push_back(input("cache/kv_latent", c.dtype, {B, {"P", e.P}, {"C", e.C}}));
    specs.push_back(input("cache/k_r", c.dtype, {B, {"P", e.P}, {"R", e.R}}));
  }
  const std::string rope = c.options.get("rope", "");
  if (rope == "angles") specs.push_back(input("rope_angle", Dtype::F64, {T, {"R", e.R / 2}}));
  if (rope == "interleaved" || rope == "half")
    specs.push_back(input("position_ids", Dtype::I64, {B, T}));
  if (c.options.get("mask", "") == "given")
    specs.push_back(input("mask_allowed", Dtype::U8, {B, {"A", 1}, T, {"S", e.P + e.T}}));
  specs.push_back({.name = "cotangents/y",
                   .role = Role::Cotangent,
                   .dtype = c.dtype,
                   .dims = {B, T, {"D", e.D}}});
  return specs;
}

std::vector<TensorSpec> mla_outputs(const Case& c) {
  const MlaExtents e = mla_extents(c);
  const auto result = [&](std::string name, Role role, std::vector<Dim> dims) {
    return TensorSpec{
        .name = std::move(name), .role = role, .dtype = c.dtype, .dims = std::move(dims)};
  };
  std::vector<TensorSpec> specs = {result("y", Role::Output, {{"B", e.B}, {"T", e.T}, {"D", e.D}})};
  const std::vector<Tap> tapped = c.options.flag("taps") ? taps(c) : std::vector<Tap>{};
  for (const Tap& tap : tapped)
    specs.push_back(result(std::string("tap/") + tap.name, Role::Output, tap.dims));
  for (const TensorSpec& in : mla_inputs(c)) {
    if (in.role == Role::Cotangent || in.dtype != c.dtype || in.name == "rope_angle") continue;
    const bool parameter = in.name.starts_with("params/");
    specs.push_back(
        result((parameter ? "grads/" : "grads/inputs/") + in.name, Role::Gradient, in.dims));
    if (parameter) specs.back().parameter = in.name.substr(std::string_view("params/").size());
  }
  for (const Tap& tap : tapped)
    if (tap.gradient)
      specs.push_back(result(std::string("grads/tap/") + tap.name, Role::Gradient, tap.dims));
  return specs;
}

// Positions restart in every document and go on behind the cache; a mask is causal, and sequence b
// is padded on the left by 2 b tokens.
bool mla_derive(const Case& c, Tensor& tensor) {
  const MlaExtents e = mla_extents(c);
  std::vector<double> values;
  if (tensor.spec.name == "position_ids") {
    for (std::int64_t b = 0; b < e.B; ++b)
      for (const std::int64_t length : e.documents)
        for (std::int64_t t = 0; t < length; ++t) values.push_back(static_cast<double>(e.P + t));
  } else if (tensor.spec.name == "mask_allowed") {
    for (std::int64_t b = 0; b < e.B; ++b)
      for (std::int64_t t = 0; t < e.T; ++t)
        for (std::int64_t s = 0; s < e.P + e.T; ++s)
          values.push_back(s >= 2 * b && s <= e.P + t ? 1 : 0);
  } else {
    return false;
  }
  tensor = make_tensor(tensor.spec, values);
  return true;
}

std::string mla_refuses(const Case& c) {
  const MlaExtents e = mla_extents(c);
  const std::string rope = c.options.get("rope", "");
  if (rope != "" && rope != "interleaved" && rope != "half" && rope != "angles")
    return "rope is interleaved, half or angles";
  if (rope != "" && e.R % 2 != 0) return "an odd number of rotary channels cannot be turned";
  if (e.P > 0 && e.documents.size() > 1) return "a cache goes before one document";
  return "";
}

}  // namespace parity::net
