#include "references/model/vision.hpp"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>

namespace parity::model {
namespace {

using at::Tensor;

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

struct Tower {
  const Named& params;
  const VisionConfig& c;

  Tensor param(const std::string& name) const { return params.at(c.prefix + name); }
  Tensor maybe(const std::string& name) const {
    const auto it = params.find(c.prefix + name);
    return it == params.end() ? Tensor{} : it->second;
  }
  Tensor linear(const Tensor& x, const std::string& name) const {
    return at::linear(x, param(name + ".weight").flatten(1), maybe(name + ".bias"));
  }
  // LayerNorm where there is a bias.
  Tensor norm(const Tensor& x, const std::string& name, double eps) const {
    const Tensor weight = param(name + ".weight"), bias = maybe(name + ".bias");
    if (bias.defined()) return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
    const Tensor y = wide(x);
    return (y * at::rsqrt(y.square().mean(-1, true) + eps) * weight).to(x.scalar_type());
  }
};

Tensor read_table(const Tower& w, const std::array<std::int64_t, 3>& grid) {
  const auto [t, h, columns] = grid;
  const Tensor table = wide(w.param("vision_tower.patch_embed.pos_emb.weight"));
  const Tensor image = table.permute({2, 0, 1}).unsqueeze(0);
  const Tensor read = w.c.bicubic ? at::upsample_bicubic2d(image, {h, columns}, false)
                                  : at::upsample_bilinear2d(image, {h, columns}, false);
  Tensor pos = read.squeeze(0).permute({1, 2, 0}).reshape({1, h * columns, -1});
  if (t > 1) {
    const std::int64_t half = table.size(2) / 2;
    const auto fp64 = at::TensorOptions().dtype(at::kDouble).device(table.device());
    const Tensor rate = at::pow(1e4, at::arange(half, fp64) / -static_cast<double>(half));
    const Tensor angle = at::outer(at::arange(t, fp64), rate);
    pos = pos + at::cat({angle.sin(), angle.cos()}, -1).to(table.scalar_type()).unsqueeze(1);
  }
  return pos.expand({t, h * columns, -1}).reshape({t * h * columns, -1});
}

// e^{i angle} of every pair, [N,1,D/2], in the precision that complex numbers come in.
Tensor turns(const Tower& w, const std::array<std::int64_t, 3>& grid, std::int64_t D,
             const Tensor& like) {
  const auto [t, h, columns] = grid;
  const auto fp64 = at::TensorOptions().dtype(at::kDouble).device(like.device());
  const Tensor rate = at::pow(w.c.theta, at::arange(D / 4, fp64) * (-4.0 / static_cast<double>(D)));
  const Tensor by_col =
      at::outer(at::arange(columns, fp64), rate).view({1, columns, -1}).expand({h, columns, D / 4});
  const Tensor by_row =
      at::outer(at::arange(h, fp64), rate).view({h, 1, -1}).expand({h, columns, D / 4});
  const Tensor angle = at::stack({by_col, by_row}, -1).reshape({h * columns, 1, D / 2});
  const Tensor turn = at::polar(at::ones_like(angle), angle).repeat({t, 1, 1});
  return like.scalar_type() == at::kDouble ? turn : turn.to(at::kComplexFloat);
}

Tensor turned(const Tensor& x, const Tensor& turn, bool halves) {
  const Tensor whole = wide(x);
  std::vector<std::int64_t> pairs = x.sizes().vec();
  pairs.back() /= 2;
  pairs.push_back(2);
  if (halves) {
    std::swap(pairs[pairs.size() - 1], pairs[pairs.size() - 2]);
    const Tensor z =
        at::view_as_complex(whole.reshape(pairs).transpose(-1, -2).contiguous()) * turn;
    return at::view_as_real(z).transpose(-1, -2).flatten(-2).to(x.scalar_type());
  }
  const Tensor z = at::view_as_complex(whole.reshape(pairs)) * turn;
  return at::view_as_real(z).flatten(-2).to(x.scalar_type());
}

Tensor block(const Tower& w, const Tensor& x, const Tensor& turn, const std::string& name) {
  const VisionConfig& c = w.c;
  const std::int64_t N = x.size(0);
  const Tensor normed = w.norm(x, name + "norm0", c.eps);
  std::vector<Tensor> qkv;
  if (w.maybe(name + "wqkv.weight").defined())
    qkv = w.linear(normed, name + "wqkv").view({N, 3, c.heads, -1}).unbind(1);
  else
    for (const char* part : {"wq", "wk", "wv"})
      qkv.push_back(w.linear(normed, name + part).view({N, c.heads, -1}));
  const Tensor q = turned(qkv[0], turn, c.halves).transpose(0, 1);
  const Tensor k = turned(qkv[1], turn, c.halves).transpose(0, 1);
  const Tensor z = q.matmul(k.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2)));
  const Tensor o = at::softmax(wide(z), -1).to(z.scalar_type()).matmul(qkv[2].transpose(0, 1));
  const Tensor middle = x + w.linear(o.transpose(0, 1).flatten(1), name + "wo");
  const Tensor inner = at::gelu(w.linear(w.norm(middle, name + "norm1", c.eps), name + "mlp.fc0"),
                                c.tanh ? "tanh" : "none");
  return middle + w.linear(inner, name + "mlp.fc1");
}

}  // namespace

std::vector<Tensor> vision_tower(const Tensor& pixels, const Named& params, const VisionConfig& c) {
  const Tower w{params, c};
  const Tensor patches = w.linear(pixels, "vision_tower.patch_embed.proj");
  std::vector<Tensor> features;
  std::int64_t first = 0;
  for (const std::array<std::int64_t, 3>& grid : c.grids) {
    const auto [t, h, columns] = grid;
    const std::int64_t n = t * h * columns;
    Tensor x = patches.narrow(0, first, n) + read_table(w, grid).to(patches.scalar_type());
    first += n;
    const std::string blocks = "vision_tower.encoder.blocks.";
    const std::int64_t width = w.param(blocks + "0.wo.weight").size(1) / c.heads;
    const Tensor turn = turns(w, grid, width, x);
    for (std::int64_t i = 0; i < c.layers; ++i)
      x = block(w, x, turn, blocks + std::to_string(i) + ".");
    x = w.norm(x, "vision_tower.encoder.final_layernorm", c.eps);
    const std::int64_t D = x.size(1), mh = c.merge[0], mw = c.merge[1];
    x = x.view({t, h / mh, mh, columns / mw, mw, D}).mean(0).permute({0, 2, 1, 3, 4});
    if (w.maybe("mm_projector.pre_norm.weight").defined())
      x = w.norm(x, "mm_projector.pre_norm", c.projector_eps);
    x = x.reshape({h / mh * (columns / mw), mh * mw * D});
    x = w.linear(at::gelu(w.linear(x, "mm_projector.proj.0"), c.projector_tanh ? "tanh" : "none"),
                 "mm_projector.proj.2");
    if (w.maybe("mm_projector.post_norm.weight").defined())
      x = w.norm(x, "mm_projector.post_norm", c.projector_eps);
    features.push_back(x);
  }
  return features;
}

Tensor scatter_into_runs(const Tensor& embedded, const Tensor& tokens,
                         const std::vector<Tensor>& features, std::int64_t image_id) {
  if (features.empty()) return embedded;
  const Tensor slots = (tokens == image_id).unsqueeze(-1).expand_as(embedded);
  return embedded.masked_scatter(slots, at::cat(features).to(embedded.scalar_type()));
}

Merged merge_features(const Tensor& embedded, const Tensor& tokens, const Tensor& mask,
                      const Tensor& labels, const std::vector<Tensor>& features,
                      const MergeConfig& c) {
  const std::int64_t B = tokens.size(0), T = tokens.size(1), D = embedded.size(2);
  const bool left = !(tokens.select(1, T - 1) == c.pad_id).any().item<bool>();
  struct Row {
    std::vector<Tensor> parts, mask, labels;
    std::int64_t length = 0;
  };
  std::vector<Row> rows(static_cast<std::size_t>(B));
  std::int64_t longest = 0;
  std::size_t item = 0;
  const Tensor one = at::ones({1}, mask.options());
  for (std::int64_t b = 0; b < B; ++b) {
    Row& row = rows[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < T; ++t) {
      const auto id = tokens[b][t].item<std::int64_t>();
      const bool image = id == c.image_id;
      Tensor part =
          image ? features[item++].to(embedded.scalar_type()) : embedded[b].narrow(0, t, 1);
      if (id == c.pad_id) part = at::zeros({1, D}, embedded.options());
      row.length += part.size(0);
      row.mask.push_back(image ? one.expand({part.size(0)}) : mask[b].narrow(0, t, 1));
      row.labels.push_back(image ? at::full({part.size(0)}, -100, labels.options())
                                 : labels[b].narrow(0, t, 1));
      row.parts.push_back(std::move(part));
    }
    longest = std::max(longest, row.length);
  }
  Merged merged;
  std::vector<Tensor> ys, masks, label_rows;
  for (Row& row : rows) {
    const std::int64_t missing = longest - row.length;
    Tensor y = at::cat(row.parts), m = at::cat(row.mask), l = at::cat(row.labels);
    const std::vector<std::int64_t> pad =
        left ? std::vector<std::int64_t>{missing, 0} : std::vector<std::int64_t>{0, missing};
    ys.push_back(at::constant_pad_nd(y, {0, 0, pad[0], pad[1]}));
    masks.push_back(at::constant_pad_nd(m, pad));
    label_rows.push_back(at::constant_pad_nd(l, pad, -100));
  }
  merged.embedded = at::stack(ys), merged.mask = at::stack(masks);
  merged.labels = at::stack(label_rows);
  merged.positions = (merged.mask.cumsum(1) - 1).masked_fill(merged.mask == 0, 1);
  return merged;
}

}  // namespace parity::model
