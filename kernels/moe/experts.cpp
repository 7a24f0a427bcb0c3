#include "kernels/moe/experts.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/kda/parallel.hpp"
#include "kernels/unit/rows.hpp"

namespace parity::moe_kernel {
namespace {

using kda_kernel::best_micro;

constexpr std::int64_t kTile = 64;  // tokens

// Slots (t K + j) sorted by expert, and where each expert's begin.
struct Order {
  std::vector<std::int64_t> slot, place, begin;  // place[slot]: where it went
  struct Tile {
    std::size_t expert;
    std::int64_t first, last;
  };
  std::vector<Tile> tiles;
};

Order sorted(const Grouped& g) {
  const std::size_t E = g.experts.size();
  Order o;
  o.begin.assign(E + 1, 0);
  const std::int64_t slots = g.T * g.K;
  for (std::int64_t s = 0; s < slots; ++s) ++o.begin[static_cast<std::size_t>(g.ids[s]) + 1];
  for (std::size_t e = 0; e < E; ++e) o.begin[e + 1] += o.begin[e];
  o.slot.resize(static_cast<std::size_t>(slots));
  o.place.resize(static_cast<std::size_t>(slots));
  std::vector<std::int64_t> next(o.begin.begin(), o.begin.end() - 1);
  for (std::int64_t s = 0; s < slots; ++s) {
    const std::int64_t at = next[static_cast<std::size_t>(g.ids[s])]++;
    o.slot[static_cast<std::size_t>(at)] = s;
    o.place[static_cast<std::size_t>(s)] = at;
  }
  for (std::size_t e = 0; e < E; ++e)
    for (std::int64_t first = o.begin[e]; first < o.begin[e + 1]; first += kTile)
      o.tiles.push_back({e, first, std::min(first + kTile, o.begin[e + 1])});
  return o;
}

template <class Work>
void for_tiles(const Grouped& g, const Order& o, const Work& work) {
  kda_kernel::for_each_item(g.threads, std::ssize(o.tiles), [&] {
    return [&](std::int64_t i) { work(o.tiles[static_cast<std::size_t>(i)]); };
  });
}

// Weights as f32: where they are, or widened.
struct Wide {
  Matrix copy;
  const float* data = nullptr;
  std::int64_t stride = 0;
};
Wide wide(Dtype dtype, const void* from, std::int64_t rows, std::int64_t cols) {
  Wide w;
  if (dtype == Dtype::F32) {
    w.data = static_cast<const float*>(from);
    w.stride = cols;
  } else {
    w.copy = load(dtype, from, rows, cols);
    w.data = w.copy.data.data();
    w.stride = w.copy.ld;
  }
  return w;
}

// w[m,k] x[k,n], or w^T x; onto what is there.
void apply(const Wide& w, bool transposed_w, const Matrix& x, Matrix& y, bool onto) {
  best_micro().product({.m = y.rows,
                        .n = y.ld,
                        .k = x.rows,
                        .a = w.data,
                        .a_row = transposed_w ? 1 : w.stride,
                        .a_col = transposed_w ? w.stride : 1,
                        .b = x.data.data(),
                        .ldb = x.ld,
                        .out = y.data.data(),
                        .ldo = y.ld,
                        .onto = onto ? kda_kernel::Onto::Add : kda_kernel::Onto::Zero});
}

// Rows of x that belong to a tile.
Matrix gathered(const Grouped& g, const Order& o, const Order::Tile& tile, const Matrix& x) {
  Matrix rows(tile.last - tile.first, x.cols);
  for (std::int64_t i = tile.first; i < tile.last; ++i) {
    const float* from = x.row(o.slot[static_cast<std::size_t>(i)] / g.K);
    std::copy(from, from + x.ld, rows.row(i - tile.first));
  }
  return rows;
}

void put_rows(const Matrix& part, Matrix& to, std::int64_t first) {
  std::copy(part.data.begin(), part.data.end(), to.row(first));
}

struct TileValues {
  Matrix gate, up, h, y;  // transposed: [F or W, tokens]
};

TileValues tile_forward(const Grouped& g, const ExpertWeights& e, const Matrix& z_t) {
  TileValues v{Matrix(g.F, z_t.cols), Matrix(g.F, z_t.cols), Matrix(g.F, z_t.cols),
               Matrix(g.W, z_t.cols)};
  apply(wide(g.dtype, e.w1, g.F, g.W), false, z_t, v.gate, false);
  apply(wide(g.dtype, e.w3, g.F, g.W), false, z_t, v.up, false);
  for (std::int64_t f = 0; f < g.F; ++f)
    unit_row(v.gate.row(f), v.up.row(f), v.h.ld, g.unit, v.h.row(f));
  const bool square = g.fault == "A-MR07" && g.F == g.W;
  apply(wide(g.dtype, e.w2, g.W, g.F), square, v.h, v.y, false);
  return v;
}

}  // namespace

Matrix grouped_forward(const Grouped& g, const Matrix& z) {
  const Order o = sorted(g);
  Matrix by_place(g.T * g.K, g.W), u(g.T, g.W);
  for_tiles(g, o, [&](const Order::Tile& tile) {
    const Matrix z_t = transposed(gathered(g, o, tile, z));
    put_rows(transposed(tile_forward(g, g.experts[tile.expert], z_t).y), by_place, tile.first);
  });
  for (std::int64_t t = 0; t < g.T; ++t)
    for (std::int64_t s = t * g.K; s < (t + 1) * g.K; ++s) {
      // P-moe-unsorted: rows are taken as if they had never been sorted.
      const std::int64_t place =
          g.fault == "P-moe-unsorted" ? s : o.place[static_cast<std::size_t>(s)];
      const float* y = by_place.row(place);
      for (std::int64_t i = 0; i < g.W; ++i) u.row(t)[i] += g.weights[s] * y[i];
    }
  return u;
}

GroupedGradients grouped_backward(const Grouped& g, const Matrix& z, const Matrix& d_u) {
  const Order o = sorted(g);
  const std::int64_t slots = g.T * g.K;
  // By place: what the weight gradients contract over, and each slot's part of dz.
  Matrix z_P(slots, g.W), dy_P(slots, g.W), h_P(slots, g.F), gate_P(slots, g.F), up_P(slots, g.F),
      dz_P(slots, g.W);
  GroupedGradients d{Matrix(g.T, g.W), std::vector<float>(static_cast<std::size_t>(slots))};
  for_tiles(g, o, [&](const Order::Tile& tile) {
    const ExpertWeights& e = g.experts[tile.expert];
    const Matrix rows = gathered(g, o, tile, z);
    Matrix dy = gathered(g, o, tile, d_u);
    const TileValues v = tile_forward(g, e, transposed(rows));
    const Matrix y = transposed(v.y);
    for (std::int64_t i = tile.first; i < tile.last; ++i) {
      const auto slot = static_cast<std::size_t>(o.slot[static_cast<std::size_t>(i)]);
      float* row = dy.row(i - tile.first);
      const float* out = y.row(i - tile.first);
      d.weights[slot] = unit_kernel::lane_sum(g.W, [&](std::int64_t c) { return row[c] * out[c]; });
      for (std::int64_t c = 0; c < g.W; ++c) row[c] *= g.weights[slot];
    }
    Matrix again(g.F, rows.rows), dh(g.F, rows.rows), d_gate(g.F, rows.rows), d_up(g.F, rows.rows),
        dz(g.W, rows.rows);
    apply(wide(g.dtype, e.w2, g.W, g.F), true, transposed(dy), dh, false);
    for (std::int64_t f = 0; f < g.F; ++f) {
      unit_row(v.gate.row(f), v.up.row(f), dh.ld, g.unit, again.row(f), d_gate.row(f), d_up.row(f));
      for (std::int64_t t = 0; t < dh.ld; ++t) {
        d_gate.row(f)[t] *= dh.row(f)[t];
        d_up.row(f)[t] *= dh.row(f)[t];
      }
    }
    apply(wide(g.dtype, e.w1, g.F, g.W), true, d_gate, dz, false);
    apply(wide(g.dtype, e.w3, g.F, g.W), true, d_up, dz, true);
    put_rows(rows, z_P, tile.first);
    put_rows(dy, dy_P, tile.first);
    put_rows(transposed(v.h), h_P, tile.first);
    put_rows(transposed(d_gate), gate_P, tile.first);
    put_rows(transposed(d_up), up_P, tile.first);
    put_rows(transposed(dz), dz_P, tile.first);
  });
  for (std::size_t e = 0; e < g.experts.size(); ++e) {
    const ExpertWeights& w = g.experts[e];
    const std::int64_t first = o.begin[e];
    std::int64_t last = o.begin[e + 1];
    if (g.fault == "A-MR01" && first == last) continue;
    if (g.fault == "A-MR02")  // whole registers of rows: the next expert's leak in
      last = std::min(slots, first + kda_kernel::pad(last - first));
    transposed_times(g.threads, gate_P, z_P, first, last, g.dtype, w.d_w1);
    transposed_times(g.threads, up_P, z_P, first, last, g.dtype, w.d_w3);
    transposed_times(g.threads, dy_P, h_P, first, last, g.dtype, w.d_w2);
  }
  for (std::int64_t t = 0; t < g.T; ++t)
    for (std::int64_t s = t * g.K; s < (t + 1) * g.K; ++s) {
      const float* part = dz_P.row(o.place[static_cast<std::size_t>(s)]);
      for (std::int64_t i = 0; i < g.W; ++i) d.z.row(t)[i] += part[i];
    }
  return d;
}

}  // namespace parity::moe_kernel
