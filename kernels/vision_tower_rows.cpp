// vision_tower.rows: items to threads, each from its patches to its features with plain loops over
// rows in f32 (kernels/vision/layers.hpp). The backward runs an item's forward again; gradients of
// parameters are those of the items, added in their order, so that no thread count shows.
// Takes the form of Kimi K3: RMSNorm, no bias, pairs, bilinear table.
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <map>

#include "harness/text.hpp"
#include "kernels/unit/rows.hpp"
#include "kernels/vision/layers.hpp"

namespace parity::vision_kernel {
namespace {

using Params = std::map<std::string, Rows, std::less<>>;

struct Item {
  std::int64_t t = 0, h = 0, w = 0;
  std::int64_t patch = 0, token = 0;  // first row in the tensors of the case
  std::int64_t patches() const { return t * h * w; }
};

struct Tower {
  std::int64_t layers = 0, D = 0, H = 0, Q = 0, K = 0, M = 0, N = 0, O = 0, mh = 2, mw = 2;
  std::int64_t most_patches = 0, most_tokens = 0;  // 0: flat layout
  bool fused = true, tanh = true, projector_tanh = false;
  float eps = 0, projector_eps = 0;
  double theta = 1e4;
  std::vector<Item> items = {};
  Params params = {};
  std::string_view fault = {};

  const Rows& param(const std::string& name) const { return params.at(name); }
  std::int64_t tokens(const Item& i) const { return i.h / mh * (i.w / mw); }
};

std::string block_name(std::int64_t i) { return fmt::format("vision_tower.encoder.blocks.{}.", i); }

template <class T>
Rows widened(const T* from, std::int64_t n) {
  Rows x(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = unit_kernel::widen(from[i]);
  return x;
}

void set_items(const Launch& l, Tower& w) {
  const bool padded = l.problem.options.get("layout", "flat") == "padded";
  const auto* thw = l.in<std::int64_t>("grid_thw");
  const auto count =
      static_cast<std::int64_t>(split(l.problem.options.get("grids", "1x2x2"), '+').size());
  for (std::int64_t b = 0; b < count; ++b) {
    const Item item{thw[3 * b], thw[3 * b + 1], thw[3 * b + 2]};
    w.items.push_back(item);
    if (!padded) continue;
    w.most_patches = std::max(w.most_patches, item.patches());
    w.most_tokens = std::max(w.most_tokens, w.tokens(item));
  }
  std::int64_t patch = 0, token = 0;
  for (Item& item : w.items) {
    item.patch = patch, item.token = token;
    patch += padded ? w.most_patches : item.patches();
    token += padded ? w.most_tokens : w.tokens(item);
  }
}

template <class T>
Tower tower_of(const Launch& l) {
  const Case& c = l.problem;
  const Options& o = c.options;
  const std::vector<std::string> merge = split(o.get("merge", "2x2"), 'x');
  Tower w{.layers = c.sizes["L"], .D = c.sizes["D"], .H = c.sizes["H"], .Q = c.sizes["Q"]};
  w.K = 3 * c.sizes["P"] * c.sizes["P"], w.M = c.sizes["M"], w.N = c.sizes["N"];
  w.O = c.sizes["O"];
  w.mh = to_integer(merge.at(0), "merge"), w.mw = to_integer(merge.at(1), "merge");
  w.fused = o.get("qkv", "fused") == "fused";
  w.tanh = o.get("gelu", "tanh") == "tanh";
  w.projector_tanh = o.get("projector_gelu", "erf") == "tanh";
  w.theta = o.real("theta", 1e4);
  w.projector_eps = static_cast<float>(o.real("projector_eps", 1e-5));
  const float spacing = c.dtype == Dtype::BF16 ? 0x1p-7F : 0x1p-23F;
  w.eps = o.get("eps", "finfo") == "finfo" ? spacing : static_cast<float>(o.real("eps", 1e-5));
  w.fault = l.fault;
  constexpr std::string_view kParams = "params/";
  for (const TensorView& view : l.inputs)
    if (view.spec->name.starts_with(kParams))
      w.params[view.spec->name.substr(kParams.size())] =
          widened(l.in<T>(view.spec->name), elements(view.spec->dims));
  set_items(l, w);
  return w;
}

// Calls read(patch, row of the table, weight); the weights are those of two rows and two columns.
template <class Read>
void for_reads(const Tower& w, const Item& item, const Read& read) {
  struct Line {
    std::int64_t low = 0, high = 0;
    float share = 0;  // of `high`
  };
  const auto line = [&](std::int64_t d, std::int64_t n, std::int64_t M) {
    const float scale = static_cast<float>(M) / static_cast<float>(n);
    const float at = std::max((static_cast<float>(d) + 0.5F) * scale - 0.5F, 0.0F);
    const std::int64_t low = std::min(static_cast<std::int64_t>(at), M - 1);
    return Line{low, std::min(low + 1, M - 1), at - static_cast<float>(low)};
  };
  for (std::int64_t p = 0; p < item.patches(); ++p) {
    const Line r = line(p / item.w % item.h, item.h, w.M), c = line(p % item.w, item.w, w.N);
    read(p, r.low * w.N + c.low, (1 - r.share) * (1 - c.share));
    read(p, r.low * w.N + c.high, (1 - r.share) * c.share);
    read(p, r.high * w.N + c.low, r.share * (1 - c.share));
    read(p, r.high * w.N + c.high, r.share * c.share);
  }
}

void add_positions(const Tower& w, const Item& item, Rows& x) {
  const Rows& table = w.param("vision_tower.patch_embed.pos_emb.weight");
  for_reads(w, item, [&](std::int64_t p, std::int64_t from, float weight) {
    for (std::int64_t d = 0; d < w.D; ++d)
      x[static_cast<std::size_t>(p * w.D + d)] +=
          weight * table[static_cast<std::size_t>(from * w.D + d)];
  });
  if (item.t == 1) return;
  const std::int64_t half = w.D / 2;
  for (std::int64_t p = 0; p < item.patches(); ++p)
    for (std::int64_t i = 0; i < half; ++i) {
      const double rate = std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half));
      const double angle = static_cast<double>(p / (item.h * item.w)) * rate;
      x[static_cast<std::size_t>(p * w.D + i)] += static_cast<float>(std::sin(angle));
      x[static_cast<std::size_t>(p * w.D + half + i)] += static_cast<float>(std::cos(angle));
    }
}

// Turns the pairs of every head: even ones by the column, odd ones by the row.
void turn(const Tower& w, const Item& item, Rows& x, double direction) {
  const std::int64_t head = w.Q / w.H;
  for (std::int64_t p = 0; p < item.patches(); ++p)
    for (std::int64_t j = 0; j < head / 2; ++j) {
      const std::int64_t at = j % 2 == 0 ? p % item.w : p / item.w % item.h;
      const double rate =
          std::pow(w.theta, -4.0 * static_cast<double>(j / 2) / static_cast<double>(head));
      const double angle = direction * static_cast<double>(at) * rate;
      const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
      for (std::int64_t h = 0; h < w.H; ++h) {
        float* pair = x.data() + p * w.Q + h * head + 2 * j;
        const float a = pair[0], b = pair[1];
        pair[0] = a * c - b * s;
        pair[1] = a * s + b * c;
      }
    }
}

// What the backward of an item reads.
struct BlockTape {
  Normed n0, n1;
  Rows q, k, v, fc0, activated;
  Attention a;
};
struct Tape {
  std::vector<BlockTape> blocks;
  Normed last, post;
  Rows merged, proj0, activated;
};

Rows part(const Rows& w, std::int64_t which) {
  const auto n = static_cast<std::ptrdiff_t>(w.size() / 3);
  return {w.begin() + which * n, w.begin() + (which + 1) * n};
}

Rows weight_of(const Tower& w, const std::string& block, std::int64_t which) {
  constexpr std::array<const char*, 3> kNames = {"wq.weight", "wk.weight", "wv.weight"};
  if (!w.fused) return w.param(block + kNames[static_cast<std::size_t>(which)]);
  return part(w.param(block + "wqkv.weight"), which);
}

Heads heads_of(const Tower& w, const Item& item) { return {item.patches(), w.H, w.Q / w.H}; }

BlockTape block_forward(const Tower& w, const Item& item, const std::string& name, Rows& x) {
  BlockTape b;
  b.n0 = rms_norm(x, w.param(name + "norm0.weight"), w.eps);
  b.q = linear(b.n0.y, weight_of(w, name, 0), w.D);
  b.k = linear(b.n0.y, weight_of(w, name, 1), w.D);
  b.v = linear(b.n0.y, weight_of(w, name, 2), w.D);
  turn(w, item, b.q, 1);
  turn(w, item, b.k, 1);
  b.a = attend(heads_of(w, item), b.q, b.k, b.v);
  add(x, linear(b.a.o, w.param(name + "wo.weight"), w.Q));
  b.n1 = rms_norm(x, w.param(name + "norm1.weight"), w.eps);
  b.fc0 = linear(b.n1.y, w.param(name + "mlp.fc0.weight"), w.D);
  b.activated = gelu(b.fc0, w.tanh);
  const Rows& fc1 = w.param(name + "mlp.fc1.weight");
  add(x, linear(b.activated, fc1, static_cast<std::int64_t>(fc1.size()) / w.D));
  return b;
}

// Calls go(patch, element of the merged row) for every patch: frame after frame, k row-major.
template <class Go>
void for_merged(const Tower& w, const Item& item, const Go& go) {
  for (std::int64_t p = 0; p < item.patches(); ++p) {
    const std::int64_t row = p / item.w % item.h, col = p % item.w;
    const std::int64_t token = row / w.mh * (item.w / w.mw) + col / w.mw;
    go(p, (token * w.mh * w.mw + row % w.mh * w.mw + col % w.mw) * w.D);
  }
}

Tape item_forward(const Tower& w, const Item& item, const Rows& pixels) {
  Tape tape;
  Rows x = linear(pixels, w.param("vision_tower.patch_embed.proj.weight"), w.K);
  add_positions(w, item, x);
  for (std::int64_t i = 0; i < w.layers; ++i)
    tape.blocks.push_back(block_forward(w, item, block_name(i), x));
  tape.last = rms_norm(x, w.param("vision_tower.encoder.final_layernorm.weight"), w.eps);
  const std::int64_t width = w.mh * w.mw * w.D;
  tape.merged.resize(static_cast<std::size_t>(w.tokens(item) * width));
  for_merged(w, item, [&](std::int64_t p, std::int64_t to) {
    for (std::int64_t d = 0; d < w.D; ++d)
      tape.merged[static_cast<std::size_t>(to + d)] +=
          tape.last.y[static_cast<std::size_t>(p * w.D + d)];
  });
  for (float& v : tape.merged) v /= static_cast<float>(item.t);
  tape.proj0 = linear(tape.merged, w.param("mm_projector.proj.0.weight"), width);
  tape.activated = gelu(tape.proj0, w.projector_tanh);
  const Rows& proj2 = w.param("mm_projector.proj.2.weight");
  const Rows y = linear(tape.activated, proj2, static_cast<std::int64_t>(proj2.size()) / w.O);
  tape.post = rms_norm(y, w.param("mm_projector.post_norm.weight"), w.projector_eps);
  return tape;
}

Rows block_backward(const Tower& w, const Item& item, const BlockTape& b, const std::string& name,
                    Rows dx, Params& d) {
  const auto back = [&](const Rows& x, const Rows& dy, const std::string& weight) {
    const Rows& m = w.param(name + weight);
    const std::int64_t K = static_cast<std::int64_t>(x.size()) / item.patches();
    return linear_backward(x, dy, m, K, d.at(name + weight));
  };
  const Rows d_fc0 = gelu_backward(b.fc0, back(b.activated, dx, "mlp.fc1.weight"), w.tanh);
  add(dx, rms_norm_backward(b.n1, back(b.n1.y, d_fc0, "mlp.fc0.weight"),
                            w.param(name + "norm1.weight"), d.at(name + "norm1.weight")));
  AttentionGradients g =
      attend_backward(heads_of(w, item), b.q, b.k, b.v, b.a, back(b.a.o, dx, "wo.weight"));
  turn(w, item, g.q, -1);
  turn(w, item, g.k, w.fault == "P-vit-key-turn" ? 1 : -1);
  Rows d_normed(b.n0.y.size());
  std::int64_t which = 0;
  for (const Rows* dy : {&g.q, &g.k, &g.v}) {
    const Rows m = weight_of(w, name, which);
    Rows dm(m.size());
    add(d_normed, linear_backward(b.n0.y, *dy, m, w.D, dm));
    constexpr std::array<const char*, 3> kNames = {"wq.weight", "wk.weight", "wv.weight"};
    Rows& whole = d.at(name + (w.fused ? "wqkv.weight" : kNames[static_cast<std::size_t>(which)]));
    const std::size_t first = w.fused ? static_cast<std::size_t>(which) * m.size() : 0;
    for (std::size_t i = 0; i < m.size(); ++i) whole[first + i] += dm[i];
    ++which;
  }
  add(dx, rms_norm_backward(b.n0, d_normed, w.param(name + "norm0.weight"),
                            d.at(name + "norm0.weight")));
  return dx;
}

// Returns the gradient of the pixels; those of the parameters go to `d`.
Rows item_backward(const Tower& w, const Item& item, const Rows& pixels, const Rows& dy,
                   Params& d) {
  const Tape tape = item_forward(w, item, pixels);
  const auto back = [&](const Rows& x, const Rows& g, const std::string& name, std::int64_t rows) {
    return linear_backward(x, g, w.param(name), static_cast<std::int64_t>(x.size()) / rows,
                           d.at(name));
  };
  const std::int64_t tokens = w.tokens(item);
  const std::string post = "mm_projector.post_norm.weight";
  Rows g = rms_norm_backward(tape.post, dy, w.param(post), d.at(post));
  g = back(tape.activated, g, "mm_projector.proj.2.weight", tokens);
  g = gelu_backward(tape.proj0, g, w.projector_tanh);
  const Rows d_merged = back(tape.merged, g, "mm_projector.proj.0.weight", tokens);
  Rows dx(tape.last.y.size());
  for_merged(w, item, [&](std::int64_t p, std::int64_t from) {
    for (std::int64_t i = 0; i < w.D; ++i)
      dx[static_cast<std::size_t>(p * w.D + i)] =
          d_merged[static_cast<std::size_t>(from + i)] / static_cast<float>(item.t);
  });
  const std::string last = "vision_tower.encoder.final_layernorm.weight";
  dx = rms_norm_backward(tape.last, dx, w.param(last), d.at(last));
  for (std::int64_t i = w.layers; i-- > 0;)
    dx = block_backward(w, item, tape.blocks[static_cast<std::size_t>(i)], block_name(i),
                        std::move(dx), d);
  Rows& table = d.at("vision_tower.patch_embed.pos_emb.weight");
  for_reads(w, item, [&](std::int64_t p, std::int64_t to, float weight) {
    for (std::int64_t i = 0; i < w.D; ++i)
      table[static_cast<std::size_t>(to * w.D + i)] +=
          weight * dx[static_cast<std::size_t>(p * w.D + i)];
  });
  return back(pixels, dx, "vision_tower.patch_embed.proj.weight", item.patches());
}

template <class T>
void store(const Rows& from, T* to) {
  for (std::size_t i = 0; i < from.size(); ++i) unit_kernel::narrow(from[i], to[i]);
}

// Zeros behind an item's own rows.
template <class T>
void pad(T* rows, std::int64_t own, std::int64_t most, std::int64_t width) {
  if (own < most)
    std::memset(rows + own * width, 0, static_cast<std::size_t>((most - own) * width) * sizeof(T));
}

void forward(const Launch& l) {
  unit_kernel::with_storage(l.problem.dtype, [&]<class T>(T) {
    const Tower w = tower_of<T>(l);
    const T* pixels = l.in<T>("pixels");
    T* y = l.out<T>("y");
    unit_kernel::for_slots(
        l.threads, static_cast<std::int64_t>(w.items.size()), [&](std::int64_t b) {
          const Item& item = w.items[static_cast<std::size_t>(b)];
          const Rows own = widened(pixels + item.patch * w.K, item.patches() * w.K);
          store(item_forward(w, item, own).post.y, y + item.token * w.O);
          pad(y + item.token * w.O, w.tokens(item), w.most_tokens, w.O);
        });
  });
}

void backward(const Launch& l) {
  unit_kernel::with_storage(l.problem.dtype, [&]<class T>(T) {
    const Tower w = tower_of<T>(l);
    const T *pixels = l.in<T>("pixels"), *dy = l.in<T>("cotangents/y");
    T* d_pixels = l.out<T>("grads/inputs/pixels");
    Params zeros;
    for (const auto& [name, values] : w.params) zeros[name] = Rows(values.size());
    std::vector<Params> by_item(w.items.size(), zeros);
    unit_kernel::for_slots(
        l.threads, static_cast<std::int64_t>(w.items.size()), [&](std::int64_t b) {
          const Item& item = w.items[static_cast<std::size_t>(b)];
          const Rows own = widened(pixels + item.patch * w.K, item.patches() * w.K);
          const Rows g = widened(dy + item.token * w.O, w.tokens(item) * w.O);
          T* to = d_pixels + item.patch * w.K;
          store(item_backward(w, item, own, g, by_item[static_cast<std::size_t>(b)]), to);
          pad(to, item.patches(), w.most_patches, w.K);
        });
    for (auto& [name, sum] : zeros) {
      for (const Params& own : by_item) {
        if (w.fault == "P-vit-last-item" && &own != &by_item.back()) continue;
        add(sum, own.at(name));
      }
      store(sum, l.out<T>("grads/params/" + name));
    }
  });
}

std::string refuses(const Case& c, const Options&) {
  const Options& o = c.options;
  if (o.flag("taps")) return "no taps";
  if (o.get("form", "k3") != "k3") return "of Kimi K3 only";
  if (o.get("rope", "pairs") != "pairs") return "turns pairs only";
  return o.get("interpolation", "bilinear") == "bilinear" ? "" : "reads its table bilinear";
}

const Register kernel{KernelDef{
    .op = "vision_tower",
    .name = "vision_tower.rows",
    .what = "items to threads, f32 sums in eight lanes, forward again in the backward",
    .contract = unit_kernel::kF32Contract,
    .refuses = refuses,
    .forward = forward,
    .backward = backward,
    .faults = {{"P-vit-key-turn", "", "gradients of keys are turned the wrong way"},
               {"P-vit-last-item", "", "parameters take the last item's gradient only"}},
}};

}  // namespace
}  // namespace parity::vision_kernel
