// What dAqk and dL give to dq, dk, dbeta and dG (kda.md §4.1), by 16 x 16 blocks like the forward's
// products:
//   row_i: dq_i += sum_j dAqk_ij k_j 2^(G_i - G_j);  r_i = sum_j dL_ij k_j 2^(G_i - G_j);  dbeta_i
//   += k_i . r_i col_j: c_j = sum_i (dAqk_ij q_i + dL_ij beta_i k_i) 2^(G_i - G_j) dk += beta r +
//   c;  dG += q dq + k (beta r - c)
// Anchors: the first row of the row block for rows, the last row of the column block for columns.
#include "references/kda/chunk.hpp"

namespace parity::kda {
namespace {

struct Block {
  std::size_t first = 0, last = 0;
  std::size_t rows() const { return last - first; }
};

Floats32 anchor_row(const Chunk& c, std::size_t row, std::size_t K, float below) {
  Floats32 anchor(K);
  for (std::size_t d = 0; d < K; ++d) anchor[d] = c.G[row * K + d] - below;
  return anchor;
}

// 2^(sign (G - anchor)) for the rows of a block.
Floats32 factors(Engine& e, const Chunk& c, const Floats32& anchor, float sign, Block b) {
  const std::size_t K = anchor.size();
  Floats32 y(b.rows() * K);
  for (std::size_t i = b.first; i < b.last; ++i)
    for (std::size_t d = 0; d < K; ++d)
      y[(i - b.first) * K + d] = sign * (c.G[i * K + d] - anchor[d]);
  e.exp2(y, y);
  return y;
}

Floats32 scaled(const Floats32& x, std::size_t first, Floats32 y) {
  for (std::size_t p = 0; p < y.size(); ++p) y[p] *= x[first + p];
  return y;
}

Floats32 cut(const Floats32& x, std::size_t n, Block rows, Block columns) {
  Floats32 y;
  y.reserve(rows.rows() * columns.rows());
  for (std::size_t i = rows.first; i < rows.last; ++i)
    for (std::size_t j = columns.first; j < columns.last; ++j) y.push_back(x[i * n + j]);
  return y;
}

// The sums of one block of 16 tokens: over earlier tokens (rows) and over later ones (columns).
struct Sums {
  Floats32 dq, r, col;
};

// One product for `columns` <- `over`: out += (d^T or d) (x 2^...) 2^..., operands rounded at
// `point`.
void add_product(Engine& e, Floats32& out, Floats32 d, bool transpose, Floats32 operand,
                 const Floats32& outer, std::size_t rows, std::size_t inner, std::size_t K,
                 const Point& point) {
  e.round(point, d);
  e.round(point, operand);
  Floats32 product;
  e.multiply(product, transpose ? by_columns(d, rows) : by_rows(d, inner), operand, rows, K, inner);
  for (std::size_t p = 0; p < out.size(); ++p) out[p] += product[p] * outer[p];
}

void off_diagonal(Engine& e, const Chunk& c, const Floats32& dAqk, const Floats32& dL,
                  const Floats32& beta_k, Block own, Sums& sums) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n;
  if (own.first > 0) {
    const Block before{0, own.first};
    const Floats32 anchor = anchor_row(c, own.first, K, 0);
    const Floats32 outer = factors(e, c, anchor, 1, own),
                   kb = scaled(c.k, 0, factors(e, c, anchor, -1, before));
    add_product(e, sums.dq, cut(dAqk, n, own, before), false, kb, outer, own.rows(), own.first, K,
                e.points.products);
    add_product(e, sums.r, cut(dL, n, own, before), false, kb, outer, own.rows(), own.first, K,
                e.points.products);
  }
  if (own.last < n) {
    const Block after{own.last, n};
    const Floats32 anchor = anchor_row(c, own.last - 1, K, 0);
    const Floats32 outer = factors(e, c, anchor, -1, own), inner = factors(e, c, anchor, 1, after);
    add_product(e, sums.col, cut(dAqk, n, after, own), true, scaled(c.q, own.last * K, inner),
                outer, own.rows(), after.rows(), K, e.points.products);
    add_product(e, sums.col, cut(dL, n, after, own), true, scaled(beta_k, own.last * K, inner),
                outer, own.rows(), after.rows(), K, e.points.products);
  }
}

// One product of a diagonal block, with rounded operands or in parts: a b is a1 b1 + a1 b2 + a2 b1
// where a = a1 + a2 up to the format's square.
void add_diagonal(Engine& e, Floats32& out, const Floats32& d, bool transpose,
                  const Floats32& operand, const Floats32& outer, std::size_t rows) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K);
  const Point& parts = e.points.d_parts;
  if (!parts.on())
    return add_product(e, out, d, transpose, operand, outer, rows, rows, K, e.points.d_diagonal);
  const auto split = [&](const Floats32& x) {
    Floats32 high = x, low = x;
    e.round(parts, high);
    for (std::size_t p = 0; p < x.size(); ++p) low[p] -= high[p];
    e.round(parts, low);
    return std::pair{high, low};
  };
  const auto [d1, d2] = split(d);
  const auto [x1, x2] = split(operand);
  const Point exact{};
  add_product(e, out, d1, transpose, x1, outer, rows, rows, K, exact);
  add_product(e, out, d1, transpose, x2, outer, rows, rows, K, exact);
  add_product(e, out, d2, transpose, x1, outer, rows, rows, K, exact);
}

void diagonal_product(Engine& e, const Chunk& c, const Floats32& dAqk, const Floats32& dL,
                      const Floats32& beta_k, Block own, Sums& sums) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n, rows = own.rows();
  const Floats32 anchor = anchor_row(c, own.first, K, e.diagonal_anchor);
  const Floats32 up = factors(e, c, anchor, 1, own), down = factors(e, c, anchor, -1, own);
  const Floats32 kb = scaled(c.k, own.first * K, down);
  const Floats32 a = cut(dAqk, n, own, own), l = cut(dL, n, own, own);
  add_diagonal(e, sums.dq, a, false, kb, up, rows);
  add_diagonal(e, sums.r, l, false, kb, up, rows);
  add_diagonal(e, sums.col, a, true, scaled(c.q, own.first * K, up), down, rows);
  add_diagonal(e, sums.col, l, true, scaled(beta_k, own.first * K, up), down, rows);
}

void diagonal_exact(Engine& e, const Chunk& c, const Floats32& dAqk, const Floats32& dL, Block own,
                    Sums& sums) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n;
  Floats32 factor(K);
  for (std::size_t i = own.first; i < own.last; ++i)
    for (std::size_t j = own.first; j <= i; ++j) {
      const float a = dAqk[i * n + j], l = dL[i * n + j], lb = l * c.beta[i];
      for (std::size_t d = 0; d < K; ++d) factor[d] = c.G[i * K + d] - c.G[j * K + d];
      if (i != j)
        e.exp2(factor, factor);
      else
        factor.assign(K, 1);
      float *dq = &sums.dq[(i - own.first) * K], *r = &sums.r[(i - own.first) * K],
            *col = &sums.col[(j - own.first) * K];
      const float *qi = &c.q[i * K], *ki = &c.k[i * K], *kj = &c.k[j * K];
      for (std::size_t d = 0; d < K; ++d) {
        const float kf = kj[d] * factor[d];
        dq[d] += a * kf;
        r[d] += l * kf;
        col[d] += (a * qi[d] + lb * ki[d]) * factor[d];
      }
    }
}

}  // namespace

void backward_products(Engine& e, const Chunk& c, const Floats32& dAqk, const Floats32& dL,
                       ChainGradients& out) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n;
  Floats32 beta_k(n * K);
  for (std::size_t p = 0; p < n * K; ++p) beta_k[p] = c.k[p] * c.beta[p / K];
  e.round(e.points.beta_k, beta_k);
  for (Block own{0, std::min(kSub, n)}; own.first < n;
       own = {own.last, std::min(own.last + kSub, n)}) {
    Sums sums{Floats32(own.rows() * K), Floats32(own.rows() * K), Floats32(own.rows() * K)};
    off_diagonal(e, c, dAqk, dL, beta_k, own, sums);
    if (e.points.d_diagonal.on() || e.points.d_parts.on())
      diagonal_product(e, c, dAqk, dL, beta_k, own, sums);
    else
      diagonal_exact(e, c, dAqk, dL, own, sums);
    for (std::size_t i = own.first; i < own.last; ++i)
      for (std::size_t d = 0; d < K; ++d) {
        const std::size_t p = i * K + d, s = (i - own.first) * K + d;
        const float r = sums.r[s] * c.beta[i];
        out.dbeta[i] += sums.r[s] * c.k[p];
        out.dG[p] += c.q[p] * sums.dq[s] + c.k[p] * (r - sums.col[s]);
        out.dq[p] += sums.dq[s];
        out.dk[p] += r + sums.col[s];
      }
  }
}

}  // namespace parity::kda
