#include "references/blocks/vision.hpp"

#include <algorithm>
#include <cmath>

#include "harness/dtype.hpp"
#include "references/blocks/layer_norm.hpp"

namespace parity::net {
namespace {

std::string block_name(const VisionTower& v, std::int64_t i) {
  return v.tower + "encoder.blocks." + std::to_string(i) + ".";
}

double eps_of_tower(const auto& run, const VisionTower& v) {
  if (run.fault("P-vit-eps-torchtitan")) return 1e-5;
  if (run.fault("P-vit-eps-bf16")) return 0x1p-7;
  return v.eps;
}
double eps_of_projector(const auto& run, const VisionTower& v) {
  return run.fault("P-vit-post-eps") ? v.projector_eps / 10 : v.projector_eps;
}
Gelu tower_gelu(const auto& run, const VisionTower& v) {
  return run.fault("P-vit-gelu-erf") ? Gelu::Erf : v.gelu;
}
Gelu projector_gelu(const auto& run, const VisionTower& v) {
  return run.fault("P-vit-projector-tanh") ? Gelu::Tanh : v.projector_gelu;
}

template <class T>
Array<T> norm(Run<T>& run, const Array<T>& x, const std::string& name, const VisionTower& v) {
  if (run.fault("P-vit-no-norm") && !name.ends_with("final_layernorm")) return x;
  if (run.fault("P-vit-no-final-norm") && name.ends_with("final_layernorm")) return x;
  const double eps = eps_of_tower(run, v);
  return v.layer_norm ? layer_norm(run, x, name, eps)
                      : rms_norm(run, x, name + ".weight", {.eps = eps});
}

template <class T>
Array<T> norm_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy, const std::string& name,
                       const VisionTower& v) {
  const double eps = eps_of_tower(run, v);
  return v.layer_norm ? layer_norm_backward(run, x, dy, name, eps)
                      : rms_norm_backward(run, x, dy, name + ".weight", {.eps = eps});
}

// The three thirds of rows of width 3 Q, as heads, and back.
template <class T>
Array<T> third(const Run<T>& run, const Array<T>& qkv, std::int64_t which, std::int64_t H) {
  const std::int64_t Q = qkv.width() / 3, D = Q / H;
  const bool by_head = run.fault("P-vit-qkv-by-head");  // rows [heads][3][head]
  Array<T> x({qkv.rows(), H, D});
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / Q, h = i % Q / D, d = i % D;
    x[i] = qkv[row * 3 * Q + (by_head ? (h * 3 + which) * D + d : which * Q + h * D + d)];
  }
  return x;
}
template <class T>
Array<T> thirds_joined(const Array<T>& q, const Array<T>& k, const Array<T>& v) {
  const std::int64_t N = q.shape[0], Q = q.shape[1] * q.shape[2];
  Array<T> qkv({N, 3 * Q});
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t i = 0; i < Q; ++i) {
      qkv[n * 3 * Q + i] = q[n * Q + i];
      qkv[n * 3 * Q + Q + i] = k[n * Q + i];
      qkv[n * 3 * Q + 2 * Q + i] = v[n * Q + i];
    }
  return qkv;
}

template <class T>
bool fused(const Run<T>& run, const std::string& block) {
  return run.has("params/" + block + "wqkv.weight");
}

// Keys of a patch: all those of its item.
template <class T>
std::vector<Keys> keys_of(const Run<T>& run, const VisionTower& v) {
  std::vector<Keys> keys;
  std::int64_t first = 0;
  const std::int64_t all = patches(v.grids);
  for (const Grid& g : v.grids) {
    const std::int64_t last = first + g.patches();
    for (std::int64_t p = first; p < last; ++p) {
      Keys seen{first, last};
      if (run.fault("P-vit-causal")) seen.last = p + 1;
      if (run.fault("P-vit-across-items")) seen = {0, all};
      if (run.fault("P-vit-spatial-only")) {  // the report's factorised form: a frame at a time
        seen.first = p - (p - first) % (g.h * g.w);
        seen.last = seen.first + g.h * g.w;
      }
      keys.push_back(seen);
    }
    first = last;
  }
  return keys;
}

template <class T>
double scale_of(const Run<T>& run, const VisionTower& v, const Array<T>& q) {
  const std::int64_t width = run.fault("P-vit-scale") ? q.shape[2] * v.heads : q.shape[2];
  return 1 / std::sqrt(static_cast<double>(width));
}

template <class T>
VisionBlockState<T> block_forward(Run<T>& run, Array<T> x, const Array<T>& cos_sin,
                                  const std::string& name, const VisionTower& v) {
  VisionBlockState<T> s;
  s.normed0 = norm(run, x, name + "norm0", v);
  if (fused(run, name)) {
    const Array<T> qkv = linear(run, s.normed0, name + "wqkv");
    s.q = third(run, qkv, 0, v.heads);
    s.k = third(run, qkv, 1, v.heads);
    s.v = third(run, qkv, 2, v.heads);
  } else {
    const auto heads = [&](const char* part) {
      const Array<T> y = linear(run, s.normed0, name + part);
      return y.as({y.rows(), v.heads, y.width() / v.heads});
    };
    s.q = heads("wq"), s.k = heads("wk"), s.v = heads("wv");
  }
  rotate(run, s.q, cos_sin, v.rope, false);
  rotate(run, s.k, cos_sin, v.rope, false);
  s.attended = attention(run, s.q, s.k, s.v, scale_of(run, v, s.q), keys_of(run, v));
  const Array<T>& o = s.attended.o;
  s.mixed = linear(run, o.as({o.shape[0], o.shape[1] * o.shape[2]}), name + "wo");
  if (run.fault("P-vit-no-attention")) std::ranges::fill(s.mixed.data, T{0});
  s.middle = plus(x, s.mixed);
  run.store(s.middle);
  s.normed1 = norm(run, s.middle, name + "norm1", v);
  s.fc0 = linear(run, s.normed1, name + "mlp.fc0");
  s.activated = gelu(run, s.fc0, tower_gelu(run, v));
  s.out = linear(run, s.activated, name + "mlp.fc1");
  if (run.fault("P-vit-no-mlp")) std::ranges::fill(s.out.data, T{0});
  add(s.out, s.middle);
  run.store(s.out);
  s.in = std::move(x);
  return s;
}

// Returns d(in); d(mixed), which is also the residual's part of it, through `d_mixed`.
template <class T>
Array<T> block_backward(Run<T>& run, const VisionBlockState<T>& s, const Array<T>& d_out,
                        const Array<T>& cos_sin, const std::string& name, const VisionTower& v,
                        Array<T>& d_mixed) {
  const Array<T> d_activated = linear_backward(run, s.activated, d_out, name + "mlp.fc1");
  const Array<T> d_fc0 = gelu_backward(run, s.fc0, d_activated, tower_gelu(run, v));
  d_mixed = plus(
      d_out, norm_backward(run, s.middle, linear_backward(run, s.normed1, d_fc0, name + "mlp.fc0"),
                           name + "norm1", v));
  run.store(d_mixed);
  const Array<T>& o = s.attended.o;
  const std::int64_t N = o.shape[0], Q = o.shape[1] * o.shape[2];
  const Array<T> d_o = linear_backward(run, o.as({N, Q}), d_mixed, name + "wo").as(o.shape);
  AttentionGradients<T> d = attention_backward(run, s.q, s.k, s.v, s.attended, d_o,
                                               scale_of(run, v, s.q), keys_of(run, v));
  const bool back = !run.fault("P-vit-rope-grad");
  rotate(run, d.q, cos_sin, v.rope, back);
  rotate(run, d.k, cos_sin, v.rope, back);
  Array<T> d_normed0;
  if (fused(run, name)) {
    d_normed0 = linear_backward(run, s.normed0, thirds_joined(d.q, d.k, d.v), name + "wqkv");
  } else {
    d_normed0 = linear_backward(run, s.normed0, d.q.as({N, Q}), name + "wq");
    add(d_normed0, linear_backward(run, s.normed0, d.k.as({N, Q}), name + "wk"));
    add(d_normed0, linear_backward(run, s.normed0, d.v.as({N, Q}), name + "wv"));
    run.store(d_normed0);
  }
  Array<T> dx = plus(d_mixed, norm_backward(run, s.in, d_normed0, name + "norm0", v));
  run.store(dx);
  return dx;
}

// Calls visit(merged token, place in its row, patch): where each patch goes.
template <class T, class Visit>
void for_merged(const Run<T>& run, const VisionTower& v, const Visit& visit) {
  std::int64_t patch = 0, first = 0;
  std::int64_t item = -1;
  for (const Place& at : places(v.grids)) {
    if (at.item != item) {
      if (item >= 0) first += v.merged_by_item()[static_cast<std::size_t>(item)];
      item = at.item;
    }
    const std::int64_t columns = v.grids[static_cast<std::size_t>(at.item)].w / v.merge_w;
    const std::int64_t kh = at.row % v.merge_h, kw = at.col % v.merge_w;
    const std::int64_t place =
        run.fault("P-vit-merge-columns") ? kw * v.merge_h + kh : kh * v.merge_w + kw;
    visit(first + at.row / v.merge_h * columns + at.col / v.merge_w, place, patch++, at);
  }
}

template <class T>
Array<T> merge(Run<T>& run, const Array<T>& x, const VisionTower& v) {
  const std::int64_t D = x.width(), kernel = v.merge_h * v.merge_w;
  std::vector<std::vector<std::int64_t>> sources(static_cast<std::size_t>(v.merged() * kernel));
  for_merged(run, v,
             [&](std::int64_t token, std::int64_t place, std::int64_t patch, const Place& at) {
               if (run.fault("P-vit-first-frame") && at.t > 0) return;
               sources[static_cast<std::size_t>(token * kernel + place)].push_back(patch);
             });
  Array<T> y({v.merged(), kernel * D});
  std::vector<T> terms;
  for (std::size_t s = 0; s < sources.size(); ++s)
    for (std::int64_t d = 0; d < D; ++d) {
      terms.clear();
      for (const std::int64_t patch : sources[s]) terms.push_back(x[patch * D + d]);
      y[static_cast<std::int64_t>(s) * D + d] =
          run.sum(terms) / (run.fault("P-vit-temporal-sum") ? T{1} : static_cast<T>(terms.size()));
    }
  run.store(y);
  return y;
}

template <class T>
Array<T> merge_backward(Run<T>& run, const Array<T>& dy, const VisionTower& v) {
  const std::int64_t kernel = v.merge_h * v.merge_w, D = dy.width() / kernel;
  Array<T> dx({patches(v.grids), D});
  for_merged(run, v,
             [&](std::int64_t token, std::int64_t place, std::int64_t patch, const Place& at) {
               const std::int64_t frames = v.grids[static_cast<std::size_t>(at.item)].t;
               const T divisor = run.fault("P-vit-temporal-grad") ? T{1} : static_cast<T>(frames);
               for (std::int64_t d = 0; d < D; ++d)
                 dx[patch * D + d] = dy[(token * kernel + place) * D + d] / divisor;
             });
  run.store(dx);
  return dx;
}

}  // namespace

std::vector<std::int64_t> VisionTower::merged_by_item() const {
  std::vector<std::int64_t> counts;
  for (const Grid& g : grids) counts.push_back(g.h / merge_h * (g.w / merge_w));
  return counts;
}

std::int64_t VisionTower::merged() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : merged_by_item()) sum += count;
  return sum;
}

double spacing_at_one(Dtype dtype) { return 2 * format(dtype).unit_roundoff; }

template <class T>
VisionState<T> vision_tower(Run<T>& run, const Array<T>& pixels, const VisionTower& v) {
  VisionState<T> s;
  const Array<T>& table = run.param(v.tower + "patch_embed.pos_emb.weight");
  s.patch_embed = linear(run, pixels, v.tower + "patch_embed.proj");
  s.positions = positions(run, table, v.grids, v.interpolation);
  Array<T> x = plus(s.patch_embed, s.positions);
  run.store(x);
  const std::string first = block_name(v, 0);
  const std::int64_t Q = run.param(first + "wo.weight").width();
  s.cos_sin = rope_cos_sin(run, places(v.grids), Q / v.heads, v.rope);
  for (std::int64_t i = 0; i < v.layers; ++i) {
    s.blocks.push_back(block_forward(run, x, s.cos_sin, block_name(v, i), v));
    x = s.blocks.back().out;
  }
  s.final_norm = norm(run, x, v.tower + "encoder.final_layernorm", v);
  s.merged = merge(run, s.final_norm, v);
  s.pre_normed = s.merged;
  if (v.layer_norm) {
    const std::int64_t D = s.final_norm.width(), width = s.merged.width();
    s.pre_normed = layer_norm(run, s.merged.as({s.merged.count() / D, D}), v.projector + "pre_norm",
                              eps_of_projector(run, v))
                       .as({v.merged(), width});
  }
  s.proj0 = linear(run, s.pre_normed, v.projector + "proj.0");
  s.activated = gelu(run, s.proj0, projector_gelu(run, v));
  s.proj2 = linear(run, s.activated, v.projector + "proj.2");
  s.y = s.proj2;
  if (!v.layer_norm && !run.fault("P-vit-no-post-norm"))
    s.y =
        rms_norm(run, s.proj2, v.projector + "post_norm.weight", {.eps = eps_of_projector(run, v)});
  return s;
}

template <class T>
VisionGradients<T> vision_tower_backward(Run<T>& run, const Array<T>& pixels,
                                         const VisionState<T>& s, const Array<T>& dy,
                                         const VisionTower& v) {
  VisionGradients<T> d;
  d.proj2 = v.layer_norm ? dy
                         : rms_norm_backward(run, s.proj2, dy, v.projector + "post_norm.weight",
                                             {.eps = eps_of_projector(run, v)});
  const Array<T> d_activated = linear_backward(run, s.activated, d.proj2, v.projector + "proj.2");
  d.proj0 = gelu_backward(run, s.proj0, d_activated, projector_gelu(run, v));
  d.merged = linear_backward(run, s.pre_normed, d.proj0, v.projector + "proj.0");
  if (v.layer_norm) {
    const std::int64_t D = s.final_norm.width(), rows = s.merged.count() / D;
    d.merged = layer_norm_backward(run, s.merged.as({rows, D}), d.merged.as({rows, D}),
                                   v.projector + "pre_norm", eps_of_projector(run, v))
                   .as(s.merged.shape);
  }
  if (run.fault("P-vit-features-twice")) add(d.merged, Array<T>(d.merged));
  d.final_norm = merge_backward(run, d.merged, v);
  Array<T> dx =
      norm_backward(run, s.blocks.back().out, d.final_norm, v.tower + "encoder.final_layernorm", v);
  d.block_out.resize(s.blocks.size());
  d.block_mixed.resize(s.blocks.size());
  d.block_in.resize(s.blocks.size());
  for (std::size_t i = s.blocks.size(); i-- > 0;) {
    d.block_out[i] = dx;
    dx = block_backward(run, s.blocks[i], dx, s.cos_sin,
                        block_name(v, static_cast<std::int64_t>(i)), v, d.block_mixed[i]);
    d.block_in[i] = dx;
  }
  d.embedded = dx;
  const std::string table = v.tower + "patch_embed.pos_emb.weight";
  if (!run.fault("P-vit-frozen-table"))
    run.param_grad(table, positions_backward(run, run.param(table), dx, v.grids, v.interpolation));
  d.pixels = linear_backward(run, pixels, dx, v.tower + "patch_embed.proj");
  return d;
}

#define PARITY_INSTANTIATE(T)                                                         \
  template VisionState<T> vision_tower(Run<T>&, const Array<T>&, const VisionTower&); \
  template VisionGradients<T> vision_tower_backward(                                  \
      Run<T>&, const Array<T>&, const VisionState<T>&, const Array<T>&, const VisionTower&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
