#include "references/vision_tower/problem.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace parity::net::vision {
namespace {

constexpr double kUsualEps = 1e-5;

Gelu gelu_named(const std::string& name) { return name == "erf" ? Gelu::Erf : Gelu::Tanh; }

// Rows of patches or of merged tokens, in the case's layout.
std::vector<Dim> rows(const Problem& p, bool merged, Dim width) {
  if (!p.padded) return {{"N", merged ? p.tokens : p.patches}, std::move(width)};
  return {{"B", p.items}, {"N", merged ? p.most_tokens : p.most_patches}, std::move(width)};
}

std::vector<TensorSpec> parameters(const Case& c, const Problem& p) {
  std::vector<TensorSpec> specs;
  const auto add = [&](const std::string& name, std::vector<Dim> dims) {
    specs.push_back({.name = "params/" + name, .dtype = c.dtype, .dims = std::move(dims)});
  };
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {{"O", out}, {"I", in}});
    if (p.biased) add(name + ".bias", {{"O", out}});
  };
  const auto norm = [&](const std::string& name, std::int64_t width) {
    add(name + ".weight", {{"D", width}});
    if (p.biased) add(name + ".bias", {{"D", width}});
  };
  const VisionTower& v = p.tower;
  linear(v.tower + "patch_embed.proj", p.D, p.K);
  add(v.tower + "patch_embed.pos_emb.weight", {{"M", p.M}, {"N", p.N}, {"D", p.D}});
  for (std::int64_t i = 0; i < v.layers; ++i) {
    const std::string block = fmt::format("{}encoder.blocks.{}.", v.tower, i);
    norm(block + "norm0", p.D);
    if (p.split)
      for (const char* part : {"wq", "wk", "wv"}) linear(block + part, p.Q, p.D);
    else
      linear(block + "wqkv", 3 * p.Q, p.D);
    linear(block + "wo", p.D, p.Q);
    norm(block + "norm1", p.D);
    linear(block + "mlp.fc0", p.F, p.D);
    linear(block + "mlp.fc1", p.D, p.F);
  }
  norm(v.tower + "encoder.final_layernorm", p.D);
  if (v.layer_norm) norm(v.projector + "pre_norm", p.D);
  linear(v.projector + "proj.0", p.J, v.merge_h * v.merge_w * p.D);
  linear(v.projector + "proj.2", p.O, p.J);
  if (!v.layer_norm) norm(v.projector + "post_norm", p.O);
  return specs;
}

struct Tap {
  std::string name;
  std::vector<Dim> dims;
  bool has_gradient = false;
};

}  // namespace

Problem problem_of(const Case& c) {
  Problem p;
  VisionTower& v = p.tower;
  const Options& o = c.options;
  v.grids = parse_grids(o.get("grids", "1x2x2"));
  v.layers = c.sizes["L"], v.heads = c.sizes["H"];
  const Grid merge = parse_grids("1x" + o.get("merge", "2x2")).front();
  v.merge_h = merge.h, v.merge_w = merge.w;
  v.layer_norm = o.get("form", "k3") == "k25";
  const bool finfo = o.get("eps", v.layer_norm ? "1e-5" : "finfo") == "finfo";
  v.eps = finfo ? spacing_at_one(c.dtype) : o.real("eps", kUsualEps);
  v.projector_eps = o.real("projector_eps", kUsualEps);
  v.rope = {.theta = o.real("theta", 1e4), .halves = o.get("rope", "pairs") == "halves"};
  if (o.get("interpolation", "bilinear") == "bicubic") v.interpolation = Interpolation::Bicubic;
  v.gelu = gelu_named(o.get("gelu", "tanh"));
  v.projector_gelu = gelu_named(o.get("projector_gelu", "erf"));
  p.padded = o.get("layout", "flat") == "padded";
  p.split = o.get("qkv", "fused") == "split";
  p.biased = v.layer_norm;
  p.taps = o.flag("taps");
  p.D = c.sizes["D"], p.Q = c.sizes["Q"], p.F = c.sizes["F"], p.O = c.sizes["O"];
  p.K = 3 * c.sizes["P"] * c.sizes["P"], p.M = c.sizes["M"], p.N = c.sizes["N"];
  p.J = c.sizes.get("J", v.merge_h * v.merge_w * p.D);
  p.items = static_cast<std::int64_t>(v.grids.size());
  p.patches = patches(v.grids);
  for (const std::int64_t n : patches_by_item(v.grids))
    p.most_patches = std::max(p.most_patches, n);
  p.tokens = v.merged();
  for (const std::int64_t n : v.merged_by_item()) p.most_tokens = std::max(p.most_tokens, n);
  return p;
}

std::vector<TensorSpec> inputs(const Case& c) {
  const Problem p = problem_of(c);
  std::vector<TensorSpec> specs = {
      {.name = "grid_thw", .dtype = Dtype::I64, .dims = {{"B", p.items}, {"A", 3}}},
      {.name = "pixels", .dtype = c.dtype, .dims = rows(p, false, {"K", p.K})}};
  for (TensorSpec& spec : parameters(c, p)) specs.push_back(std::move(spec));
  specs.push_back({.name = "cotangents/y",
                   .role = Role::Cotangent,
                   .dtype = c.dtype,
                   .dims = rows(p, true, {"O", p.O})});
  return specs;
}

// The n-th recorded softmax: torchtitan attends item by item, the released code over all patches.
std::string probs_name(std::size_t n) { return n == 0 ? "probs" : fmt::format("probs.{}", n); }

namespace {

std::vector<Tap> taps(const Problem& p) {
  const std::int64_t head = p.Q / p.tower.heads, kernel = p.tower.merge_h * p.tower.merge_w;
  std::vector<Tap> list = {{"patch_embed", rows(p, false, {"D", p.D}), true},
                           {"pos", rows(p, false, {"D", p.D})},
                           {"embedded", rows(p, false, {"D", p.D}), true},
                           {"final_norm", rows(p, false, {"D", p.D}), true},
                           {"merged", rows(p, true, {"C", kernel * p.D}), true},
                           {"pooled", rows(p, true, {"C", kernel * p.D}), true},
                           {"proj1", rows(p, true, {"J", p.J}), true},
                           {"proj2", rows(p, true, {"O", p.O}), true}};
  std::vector<Dim> angles = rows(p, false, {"C", head / 2});
  angles.push_back({"R", 2});
  list.push_back({"rope_cos_sin", std::move(angles)});
  std::size_t softmax = 0;
  for (std::int64_t i = 0; i < p.tower.layers; ++i) {
    for (const char* part : {"in", "attn", "out"})
      list.push_back({fmt::format("block{}.{}", i, part), rows(p, false, {"D", p.D}), true});
    list.push_back({fmt::format("block{}.norm1", i), rows(p, false, {"D", p.D})});
    const auto square = [&](std::int64_t n) {
      list.push_back({probs_name(softmax++), {{"H", p.tower.heads}, {"T", n}, {"S", n}}});
    };
    if (p.padded)
      for (const Grid& g : p.tower.grids) square(g.patches());
    else
      square(p.patches);
  }
  return list;
}

struct Words {
  std::string_view option;
  std::vector<std::string_view> values;  // empty: anything
};
const std::vector<Words>& known_options() {
  static const std::vector<Words> kWords = {{"grids", {}},
                                            {"layout", {"flat", "padded"}},
                                            {"qkv", {"fused", "split"}},
                                            {"form", {"k3", "k25"}},
                                            {"eps", {}},
                                            {"projector_eps", {}},
                                            {"merge", {}},
                                            {"theta", {}},
                                            {"rope", {"pairs", "halves"}},
                                            {"interpolation", {"bilinear", "bicubic"}},
                                            {"gelu", {"tanh", "erf"}},
                                            {"projector_gelu", {"erf", "tanh"}},
                                            {"taps", {"0", "1"}}};
  return kWords;
}

}  // namespace

std::vector<TensorSpec> outputs(const Case& c) {
  const Problem p = problem_of(c);
  std::vector<TensorSpec> specs = {
      {.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = rows(p, true, {"O", p.O})}};
  const std::vector<Tap> recorded = p.taps ? taps(p) : std::vector<Tap>();
  for (const Tap& tap : recorded)
    specs.push_back(
        {.name = "tap/" + tap.name, .role = Role::Output, .dtype = c.dtype, .dims = tap.dims});
  specs.push_back({.name = "grads/inputs/pixels",
                   .role = Role::Gradient,
                   .dtype = c.dtype,
                   .dims = rows(p, false, {"K", p.K})});
  for (const TensorSpec& spec : parameters(c, p))
    specs.push_back({.name = "grads/" + spec.name,
                     .role = Role::Gradient,
                     .dtype = c.dtype,
                     .dims = spec.dims,
                     .parameter = spec.name.substr(std::string_view("params/").size())});
  for (const Tap& tap : recorded)
    if (tap.has_gradient)
      specs.push_back({.name = "grads/tap/" + tap.name,
                       .role = Role::Gradient,
                       .dtype = c.dtype,
                       .dims = tap.dims});
  return specs;
}

bool derive(const Case& c, Tensor& tensor) {
  if (tensor.spec.name != "grid_thw") return false;
  const std::span<std::int64_t> thw = tensor.as<std::int64_t>();
  std::size_t i = 0;
  for (const Grid& g : problem_of(c).tower.grids)
    for (const std::int64_t n : {g.t, g.h, g.w}) thw[i++] = n;
  return true;
}

std::string refuses(const Case& c) {
  for (const auto& [name, value] : c.options.map()) {
    const auto known = std::ranges::find(known_options(), name, &Words::option);
    if (known == known_options().end()) return fmt::format("vision_tower has no option '{}'", name);
    if (!known->values.empty() && !std::ranges::count(known->values, value))
      return fmt::format("{} is not '{}'", name, value);
  }
  const Problem p = problem_of(c);
  const VisionTower& v = p.tower;
  for (const Grid& g : v.grids)
    if (g.h % v.merge_h != 0 || g.w % v.merge_w != 0)
      return fmt::format("a grid of {}x{} does not divide into {}x{}", g.h, g.w, v.merge_h,
                         v.merge_w);
  if (p.Q % (4 * v.heads) != 0) return "heads turn in two dimensions: their width divides by 4";
  if (p.D % 2 != 0) return "the embedding of frames needs an even width";
  if (v.layer_norm && p.padded) return "padding would not stay zero under biases";
  return v.layers < 1 ? "a tower has a block" : "";
}

}  // namespace parity::net::vision
