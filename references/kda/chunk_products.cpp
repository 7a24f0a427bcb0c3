// Inside a chunk: Aqk, L and M = (I + L)^-1 (kda.md §4), by 16 x 16 blocks.
//
//   Aqk_ij = scale  sum_d q_i k_j 2^(G_i - G_j)   i >= j
//   L_ij   = beta_i sum_d k_i k_j 2^(G_i - G_j)   i >  j
//
// Off-diagonal blocks are products with the first row of the row block as anchor, so that both
// exponents are <= 0. Diagonal blocks are exact sums, or products too where the contract rounds
// their operands. M by forward substitution in the diagonal blocks, then merged block by block:
// M_IJ = -M_II sum_P L_IP M_PJ.
#include <algorithm>
#include <bit>

#include "references/kda/chunk_faults.hpp"

namespace parity::kda {
namespace {

// rows [first, last) of x scaled by 2^(sign (G - anchor)), rounded at `point`.
Floats32 scaled_rows(Engine& e, const Chunk& c, const Floats32& x, const Floats32& anchor,
                     float sign, std::size_t first, std::size_t last, const Point& point) {
  const std::size_t K = anchor.size();
  Floats32 y((last - first) * K);
  for (std::size_t i = first; i < last; ++i)
    for (std::size_t d = 0; d < K; ++d)
      y[(i - first) * K + d] = sign * (c.G[i * K + d] - anchor[d]);
  e.exp2(y, y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= x[first * K + i];
  e.round(point, y);
  return y;
}

void off_diagonal(Engine& e, Chunk& c, std::size_t first, std::size_t last) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n, rows = last - first;
  const Floats32 anchor(c.G.begin() + static_cast<std::ptrdiff_t>(first * K),
                        c.G.begin() + static_cast<std::ptrdiff_t>((first + 1) * K));
  const Floats32 qa = scaled_rows(e, c, c.q, anchor, 1, first, last, e.points.products);
  const Floats32 ka = scaled_rows(e, c, c.k, anchor, 1, first, last, e.points.products);
  const Floats32 kb =
      transposed(scaled_rows(e, c, c.k, anchor, -1, 0, first, e.points.products), first, K);
  Floats32 qk, kk;
  e.multiply(qk, by_rows(qa, K), kb, rows, first, K);
  e.multiply(kk, by_rows(ka, K), kb, rows, first, K);
  const auto scale = static_cast<float>(e.setup.scale);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < first; ++j) {
      c.Aqk[(first + i) * n + j] = qk[i * first + j] * scale;
      c.L[(first + i) * n + j] = kk[i * first + j] * c.beta[first + i];
    }
}

void diagonal_exact(Engine& e, Chunk& c, std::size_t first, std::size_t last) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n;
  const auto scale = static_cast<float>(e.setup.scale);
  const std::uint16_t* order = e.orders.of(K);
  Floats32 factor(K);
  for (std::size_t i = first; i < last; ++i)
    for (std::size_t j = first; j <= i; ++j) {
      for (std::size_t d = 0; d < K; ++d) factor[d] = c.G[i * K + d] - c.G[j * K + d];
      if (i != j)
        e.exp2(factor, factor);
      else
        factor.assign(K, 1);
      // Sixteen partial sums, as a warp's lanes would hold them.
      float qk[kSub] = {}, kk[kSub] = {};
      for (std::size_t p = 0; p < K; ++p) {
        const std::size_t d = order ? order[p] : p;
        const float kj = c.k[j * K + d] * factor[d];
        qk[p % kSub] += c.q[i * K + d] * kj;
        kk[p % kSub] += (c.k[i * K + d] * c.beta[i]) * kj;
      }
      float sum_qk = 0, sum_kk = 0;
      for (std::size_t l = 0; l < kSub; ++l) {
        sum_qk += qk[l];
        sum_kk += kk[l];
      }
      c.Aqk[i * n + j] = sum_qk * scale;
      if (i != j) c.L[i * n + j] = sum_kk;
    }
}

void diagonal_product(Engine& e, Chunk& c, std::size_t first, std::size_t last) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n, rows = last - first;
  Floats32 anchor(K);
  for (std::size_t d = 0; d < K; ++d) anchor[d] = c.G[first * K + d] - e.diagonal_anchor;
  const Floats32 qa = scaled_rows(e, c, c.q, anchor, 1, first, last, e.points.diagonal);
  const Floats32 ka = scaled_rows(e, c, c.k, anchor, 1, first, last, e.points.diagonal);
  const Floats32 kb =
      transposed(scaled_rows(e, c, c.k, anchor, -1, first, last, e.points.diagonal), rows, K);
  Floats32 qk, kk;
  e.multiply(qk, by_rows(qa, K), kb, rows, rows, K);
  e.multiply(kk, by_rows(ka, K), kb, rows, rows, K);
  const auto scale = static_cast<float>(e.setup.scale);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      c.Aqk[(first + i) * n + first + j] = qk[i * rows + j] * scale;
      if (i != j) c.L[(first + i) * n + first + j] = kk[i * rows + j] * c.beta[first + i];
    }
}

// Two tokens whose numbers within the block differ first in the bit `level` have a boundary between
// them, behind the last token that has the upper of these numbers' common bits and not this one:
// both are scaled by 2^(-|G - G_boundary|). Level 0: a token with itself.
void diagonal_between(Engine& e, Chunk& c, std::size_t first, std::size_t last) {
  const std::size_t K = static_cast<std::size_t>(e.setup.K), n = c.n, rows = last - first;
  const auto scale = static_cast<float>(e.setup.scale);
  Floats32 q(rows * K), k(rows * K), factor(rows * K), qk, kk;
  for (const std::size_t level : {8U, 4U, 2U, 1U, 0U}) {
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t boundary =
          level == 0 ? i : std::min((i & ~(2 * level - 1)) + level - 1, rows - 1);
      for (std::size_t d = 0; d < K; ++d) {
        const float between = c.G[(first + i) * K + d] - c.G[(first + boundary) * K + d];
        factor[i * K + d] = (i & level) != 0 ? between : -between;
      }
    }
    e.exp2(factor, factor);
    for (std::size_t p = 0; p < rows * K; ++p) {
      q[p] = c.q[first * K + p] * factor[p];
      k[p] = c.k[first * K + p] * factor[p];
    }
    e.round(e.points.between, q);
    e.round(e.points.between, k);
    const Floats32 columns = transposed(k, rows, K);
    e.multiply(qk, by_rows(q, K), columns, rows, rows, K);
    e.multiply(kk, by_rows(k, K), columns, rows, rows, K);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        if (std::bit_floor(i ^ j) != level) continue;
        c.Aqk[(first + i) * n + first + j] = qk[i * rows + j] * scale;
        if (i != j) c.L[(first + i) * n + first + j] = kk[i * rows + j] * c.beta[first + i];
      }
  }
}

Floats32 block(const Floats32& x, std::size_t n, std::size_t i0, std::size_t i1, std::size_t j0,
               std::size_t j1) {
  Floats32 y;
  y.reserve((i1 - i0) * (j1 - j0));
  for (std::size_t i = i0; i < i1; ++i)
    for (std::size_t j = j0; j < j1; ++j) y.push_back(x[i * n + j]);
  return y;
}

// Fault TruncatedNeumann: sum of (-L)^p for p < 8 only.
void truncated_block(Chunk& c, std::size_t first, std::size_t last) {
  const std::size_t n = c.n;
  const Floats32 L = block(c.L, n, first, last, first, last);
  const std::size_t rows = last - first;
  Floats32 power(rows * rows), next(rows * rows), sum(rows * rows);
  for (std::size_t i = 0; i < rows; ++i) power[i * rows + i] = 1;
  for (int p = 0; p < 8; ++p) {
    for (std::size_t x = 0; x < sum.size(); ++x) sum[x] += power[x];
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < rows; ++j) {
        float total = 0;
        for (std::size_t l = 0; l < rows; ++l) total -= L[i * rows + l] * power[l * rows + j];
        next[i * rows + j] = total;
      }
    std::swap(power, next);
  }
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < rows; ++j) c.M[(first + i) * n + first + j] = sum[i * rows + j];
}

void invert(Engine& e, Chunk& c) {
  const std::size_t n = c.n;
  for (std::size_t first = 0; first < n; first += kSub) {
    const std::size_t last = std::min(first + kSub, n);
    for (std::size_t i = first; i < last; ++i) {
      for (std::size_t j = first; j < i; ++j) {
        float sum = -c.L[i * n + j];
        for (std::size_t l = j + 1; l < i; ++l) sum -= c.L[i * n + l] * c.M[l * n + j];
        c.M[i * n + j] = sum;
      }
      c.M[i * n + i] = 1;
    }
    if (e.has(Fault::TruncatedNeumann)) truncated_block(c, first, last);
  }
  for (std::size_t first = kSub; first < n; first += kSub) {
    const std::size_t last = std::min(first + kSub, n), rows = last - first;
    Floats32 L = block(c.L, n, first, last, 0, first), above = block(c.M, n, 0, first, 0, first),
             own = block(c.M, n, first, last, first, last), sum, merged;
    e.round(e.points.merge, L);
    e.round(e.points.merge, above);
    e.round(e.points.merge, own);
    e.multiply(sum, by_rows(L, first), above, rows, first, first);
    e.round(e.points.merge, sum);
    e.multiply(merged, by_rows(own, rows), sum, rows, first, rows);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < first; ++j) c.M[(first + i) * n + j] = -merged[i * first + j];
  }
}

}  // namespace

void fill_products(Engine& e, Chunk& c) {
  c.Aqk.assign(c.n * c.n, 0);
  c.L.assign(c.n * c.n, 0);
  c.M.assign(c.n * c.n, 0);
  for (std::size_t first = 0; first < c.n; first += kSub) {
    const std::size_t last = std::min(first + kSub, c.n);
    if (first > 0) off_diagonal(e, c, first, last);
    if (e.points.between.on())
      diagonal_between(e, c, first, last);
    else if (e.points.diagonal.on())
      diagonal_product(e, c, first, last);
    else
      diagonal_exact(e, c, first, last);
  }
  if (e.fault != Fault::None) damage_scores(e, c);
  if (e.substitute) return e.round(e.points.aqk, c.Aqk);
  invert(e, c);
  if (e.fault != Fault::None) damage_inverse(e, c);
  e.round(e.points.aqk, c.Aqk);
  e.round(e.points.m, c.M);
}

}  // namespace parity::kda
