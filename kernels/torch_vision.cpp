// The vision tower and the scatter of its features as LibTorch's eager operations.
#include <ATen/ATen.h>
#include <algorithm>

#include "harness/text.hpp"
#include "harness/torch/module.hpp"
#include "references/model/vision.hpp"

namespace parity {
namespace {

using at::Tensor;
using torch_module::Named;

std::vector<std::array<std::int64_t, 3>> grids_of(const Named& in) {
  std::vector<std::array<std::int64_t, 3>> grids;
  for (const Tensor& row : in.at("grid_thw").unbind(0))
    grids.push_back(
        {row[0].item<std::int64_t>(), row[1].item<std::int64_t>(), row[2].item<std::int64_t>()});
  return grids;
}

double eps_of(const Case& c, at::ScalarType dtype) {
  const std::string usual = c.options.get("form", "k3") == "k25" ? "1e-5" : "finfo";
  if (const std::string text = c.options.get("eps", usual); text != "finfo")
    return to_real(text, "eps");
  return dtype == at::kDouble ? 0x1p-52 : dtype == at::kFloat ? 0x1p-23 : 0x1p-7;
}

model::VisionConfig config_of(const Case& c, const Named& in) {
  const Options& o = c.options;
  const std::vector<std::string> merge = split(o.get("merge", "2x2"), 'x');
  return {.prefix = "params/",
          .grids = grids_of(in),
          .layers = c.sizes["L"],
          .heads = c.sizes["H"],
          .merge = {to_integer(merge.at(0), "merge"), to_integer(merge.at(1), "merge")},
          .eps = eps_of(c, in.at("pixels").scalar_type()),
          .projector_eps = o.real("projector_eps", 1e-5),
          .theta = o.real("theta", 1e4),
          .halves = o.get("rope", "pairs") == "halves",
          .bicubic = o.get("interpolation", "bilinear") == "bicubic",
          .tanh = o.get("gelu", "tanh") == "tanh",
          .projector_tanh = o.get("projector_gelu", "erf") == "tanh"};
}

Named tower(const Case& c, const Named& in) {
  const model::VisionConfig config = config_of(c, in);
  Tensor pixels = in.at("pixels");
  const bool padded = pixels.dim() == 3;
  if (padded) {
    std::vector<Tensor> rows;
    for (std::size_t b = 0; b < config.grids.size(); ++b) {
      const auto [t, h, w] = config.grids[b];
      rows.push_back(pixels[static_cast<std::int64_t>(b)].narrow(0, 0, t * h * w));
    }
    pixels = at::cat(rows);
  }
  std::vector<Tensor> features = model::vision_tower(pixels, in, config);
  if (!padded) return {{"y", at::cat(features)}};
  std::int64_t most = 0;
  for (const Tensor& f : features) most = std::max(most, f.size(0));
  for (Tensor& f : features) f = at::constant_pad_nd(f, {0, 0, 0, most - f.size(0)});
  return {{"y", at::stack(features)}};
}

// Sums of the table's gradient in f32 or wider.
Tensor embed(const Tensor& table, const Tensor& tokens) {
  const Tensor wide = table.scalar_type() == at::kDouble ? table : table.to(at::kFloat);
  return at::embedding(wide, tokens).to(table.scalar_type());
}

// Item, row, first slot and number of slots of every run.
Tensor runs_of(const Tensor& tokens, std::int64_t image_id, const Tensor& counts) {
  const Tensor hit = (tokens == image_id).to(at::kLong);
  const Tensor before = at::constant_pad_nd(hit, {1, 0}).narrow(1, 0, hit.size(1));
  const Tensor starts = (hit * (1 - before)).nonzero();
  return at::cat(
      {at::arange(starts.size(0), counts.options()).unsqueeze(1), starts, counts.unsqueeze(1)}, 1);
}

Named scatter(const Case& c, const Named& in) {
  const std::int64_t image_id = c.options.integer("image_id", 7);
  const Tensor tokens = in.at("tokens");
  const Tensor embedded = embed(in.at("embedding"), tokens);
  std::vector<Tensor> features;
  if (c.options.get("form", "runs") == "merge") {
    for (std::size_t i = 0; in.contains("feature" + std::to_string(i)); ++i)
      features.push_back(in.at("feature" + std::to_string(i)));
    const model::Merged merged =
        model::merge_features(embedded, tokens, in.at("attention_mask"), in.at("labels"), features,
                              {.image_id = image_id, .pad_id = c.options.integer("pad_id", 0)});
    return {{"y", merged.embedded},
            {"attention_mask", merged.mask},
            {"labels", merged.labels},
            {"position_ids", merged.positions}};
  }
  const Tensor counts = in.at("counts");
  for (std::int64_t i = 0; i < counts.size(0); ++i)
    features.push_back(in.at("features")[i].narrow(0, 0, counts[i].item<std::int64_t>()));
  return {{"y", model::scatter_into_runs(embedded, tokens, features, image_id)},
          {"positions", runs_of(tokens, image_id, counts)}};
}

std::string no_taps(const Case& c, const Options&) {
  return c.options.flag("taps") ? "no taps" : "";
}
std::string no_bug(const Case& c, const Options&) {
  return c.options.flag("rightpad_bug") ? "places images where they belong" : "";
}

KernelDef eager_tower(std::string_view name, Dtype dtype) {
  KernelDef def = torch_module::candidate<tower>("vision_tower", name, dtype);
  def.refuses = no_taps;
  return def;
}
KernelDef eager_scatter(std::string_view name, Dtype dtype) {
  KernelDef def = torch_module::candidate<scatter>("vision_scatter", name, dtype);
  def.refuses = no_bug;
  return def;
}

const Register tower_f64{eager_tower("vision_tower.torch_f64", Dtype::F64)};
const Register tower_f32{eager_tower("vision_tower.torch_f32", Dtype::F32)};
const Register tower_bf16{eager_tower("vision_tower.torch_bf16", Dtype::BF16)};
const Register scatter_f64{eager_scatter("vision_scatter.torch_f64", Dtype::F64)};
const Register scatter_f32{eager_scatter("vision_scatter.torch_f32", Dtype::F32)};
const Register scatter_bf16{eager_scatter("vision_scatter.torch_bf16", Dtype::BF16)};

}  // namespace
}  // namespace parity
