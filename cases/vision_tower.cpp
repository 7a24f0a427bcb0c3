// Cases of vision_tower: images and frames of unequal, non-square grids, read from a table of
// another size.
#include <cmath>

#include "harness/kernel.hpp"
#include "harness/numeric/philox.hpp"

namespace parity {
namespace {

// Linear maps that keep a row's size and a half, norm weights around one; biases where there are.
void usual(const RowDraw& d, std::span<double> out) {
  d.rng.fill_normal(static_cast<std::uint64_t>(d.first), out);
  const std::string_view name = d.spec.name;
  if (!name.starts_with("params/") || name.ends_with("pos_emb.weight")) return;
  const double width = std::sqrt(static_cast<double>(out.size()));
  const bool norm = name.find("norm") != std::string_view::npos && name.ends_with(".weight");
  for (double& w : out) {
    if (norm)
      w = 1 + w / 4;
    else
      w *= name.ends_with(".bias") ? 0.25 : 1.5 / width;
  }
}

// What enters the norms is of the size of the root of eps, which in bf16 may be 2^-7: it shows.
void tiny(const RowDraw& d, std::span<double> out) {
  usual(d, out);
  const int shift = d.problem.dtype == Dtype::BF16 ? -3 : -7;
  const std::string_view name = d.spec.name;
  for (const std::string_view part : {"patch_embed", "wo.", "fc1.", "proj.2."})
    if (name.find(part) != std::string_view::npos)
      for (double& x : out) x = std::ldexp(x, shift);
}

Sizes tower(std::int64_t layers, std::int64_t heads, std::int64_t width) {
  return {{"L", layers, {}}, {"D", 12, {}}, {"H", heads, {}}, {"Q", heads * width, {}},
          {"F", 16, {}},     {"P", 2, {}},  {"M", 3, {}},     {"N", 4, {}},
          {"O", 10, {}}};
}

const Fill kUsual{"normal", "the usual case: structure, orders, angles, items", usual};
const Fill kTiny{"tiny", "activations of the size of the root of eps: rules of eps", tiny};

// An image, one of a single merged token, three frames.
constexpr const char* kMixed = "1x4x2+1x2x2+3x2x4";
const Options kReleased{{"grids", kMixed}};
const Options kTorchtitan{
    {"grids", "1x4x2+1x2x6+2x4x2"}, {"layout", "padded"}, {"qkv", "split"}, {"eps", "1e-5"}};
const Options kK25{{"grids", kMixed},
                   {"form", "k25"},
                   {"interpolation", "bicubic"},
                   {"qkv", "split"},
                   {"rope", "halves"}};

std::string_view exempt(const Case& c, std::string_view tensor, std::string_view) {
  if (c.options.get("form", "k3") == "k25" && tensor.ends_with("wk.bias"))
    return "a constant added to all keys of a query moves no softmax";
  return "";
}

const Register usual_sets{CaseSet{
    .op = "vision_tower",
    .what = "Two blocks, three items of unequal grids",
    .lane = Lane::Smoke,
    .sizes = {tower(2, 2, 12)},
    .dtypes = {Dtype::F32},
    .fills = {kUsual, kTiny},
    .options = {kReleased, kTorchtitan},
    .exempt = exempt,
}};

// Behind two blocks the gradients of norms of this width are little more than the noise of bf16.
const Register narrow_sets{CaseSet{
    .op = "vision_tower",
    .what = "One block, three items of unequal grids",
    .lane = Lane::Smoke,
    .sizes = {tower(1, 2, 12)},
    .dtypes = {Dtype::BF16},
    .fills = {kUsual, kTiny},
    .options = {kReleased, kTorchtitan},
    .exempt = exempt,
}};

const Register k25_sets{CaseSet{
    .op = "vision_tower",
    .what = "The form of K2.5: LayerNorm, biases, bicubic table, halves",
    .lane = Lane::Smoke,
    .sizes = {tower(1, 2, 8)},
    .dtypes = {Dtype::F32, Dtype::BF16},
    .fills = {kUsual},
    .options = {kK25},
    .exempt = exempt,
}};

const Register other_sets{CaseSet{
    .op = "vision_tower",
    .what = "Intermediate results; the grid of the table itself; unusual options",
    .lane = Lane::Smoke,
    .sizes = {tower(1, 3, 4)},
    .dtypes = {Dtype::F32},
    .fills = {kUsual},
    .options = {Options{{"grids", "1x3x4+2x3x2"},
                        {"merge", "1x2"},
                        {"theta", "100"},
                        {"gelu", "erf"},
                        {"projector_gelu", "tanh"},
                        {"taps", "1"}},
                Options{{"grids", kMixed}, {"layout", "padded"}, {"taps", "1"}}},
    .exempt = exempt,
}};

const Register wide_sets{CaseSet{
    .op = "vision_tower",
    .what = "fp64, for second opinions",
    .lane = Lane::Smoke,
    .sizes = {tower(2, 2, 12)},
    .dtypes = {Dtype::F64},
    .fills = {kUsual},
    .options = {kReleased, kTorchtitan, kK25},
    .exempt = exempt,
}};

}  // namespace
}  // namespace parity
