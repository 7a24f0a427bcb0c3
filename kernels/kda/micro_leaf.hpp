// Diagonal blocks of a chunk: decays pair by pair, triangular solves row by row. Only the
// instruction-set files include it.
#pragma once

#include "kernels/kda/micro.hpp"

namespace parity::kda_kernel {

// Adds the channels [d, d + 16 S) of row i to the partial dot products of its pairs, in vector
// lanes.
template <class V, unsigned S>
inline void score_strip(const LeafScores& p, std::int64_t i, std::int64_t d, V* with_q, V* with_k) {
  V q[S], k[S];
  const V sign = V::broadcast(p.sign);
#pragma GCC unroll 4
  for (unsigned s = 0; s < S; ++s) {
    q[s] = V::load(p.q + i * p.ld + d + s * kLanes);
    k[s] = V::load(p.k + i * p.ld + d + s * kLanes);
    with_q[i] = V::fma(q[s], k[s], with_q[i]);
    k[s] = sign * k[s];
  }
  for (std::int64_t j = i - 1; j >= 0; --j) {
    const float* a = p.a + (j + 1) * p.ld + d;
    const float* key = p.k + j * p.ld + d;
    V sum_q = with_q[j], sum_k = with_k[j];
#pragma GCC unroll 4
    for (unsigned s = 0; s < S; ++s) {
      const V decay = V::load(a + s * kLanes), other = V::load(key + s * kLanes);
      q[s] = q[s] * decay;
      k[s] = k[s] * decay;
      sum_q = V::fma(q[s], other, sum_q);
      sum_k = V::fma(k[s], other, sum_k);
    }
    with_q[j] = sum_q;
    with_k[j] = sum_k;
  }
}

template <class V>
void leaf_scores(const LeafScores& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    V with_q[kLeaf], with_k[kLeaf];
    for (int j = 0; j < kLeaf; ++j) with_q[j] = with_k[j] = V::broadcast(0.0f);
    std::int64_t d = 0;
    for (; d + V::kStrips * kLanes <= p.cols; d += V::kStrips * kLanes)
      score_strip<V, V::kStrips>(p, i, d, with_q, with_k);
    for (; d < p.cols; d += kLanes) score_strip<V, 1>(p, i, d, with_q, with_k);
    V::sums(with_q).store(p.scores_q + i * p.ldc);
    V::sums(with_k).store(p.scores_k + i * p.ldc);
  }
}

// Columns [d, d + 16 S) of the solve.
template <class V, unsigned S>
inline void solve_strip(const LeafSolve& p, std::int64_t d) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    V e[S];
    float* e_row = p.e + i * p.ld + d;
#pragma GCC unroll 8
    for (unsigned s = 0; s < S; ++s) e[s] = V::load(e_row + s * kLanes);
    for (std::int64_t j = 0; j < i; ++j) {
      const V score = V::broadcast(p.scores[i * p.ldc + j]);
      const float* u = p.u + j * p.ld + d;
#pragma GCC unroll 8
      for (unsigned s = 0; s < S; ++s) e[s] = V::fma(score, V::load(u + s * kLanes), e[s]);
    }
    float* u_row = p.u + i * p.ld + d;
#pragma GCC unroll 8
    for (unsigned s = 0; s < S; ++s) {
      const V beta =
          p.headwise ? V::load(p.beta + i * p.ld + d + s * kLanes) : V::broadcast(p.beta[i]);
      e[s].store(e_row + s * kLanes);
      (beta * e[s]).store(u_row + s * kLanes);
    }
  }
}

template <class V>
void leaf_solve(const LeafSolve& p) {
  std::int64_t d = 0;
  for (; d + 4 * kLanes <= p.cols; d += 4 * kLanes) solve_strip<V, 4>(p, d);
  for (; d < p.cols; d += kLanes) solve_strip<V, 1>(p, d);
}

template <class V, unsigned S>
inline void solve_back_strip(const LeafSolve& p, std::int64_t d, V* dots) {
  for (std::int64_t i = p.rows - 1; i >= 0; --i) {
    V x[S];
    float* row = p.u + i * p.ld + d;
#pragma GCC unroll 8
    for (unsigned s = 0; s < S; ++s) x[s] = V::load(row + s * kLanes);
    const auto add = [&](float weight, const float* other) {
      const V score = V::broadcast(weight);
#pragma GCC unroll 8
      for (unsigned s = 0; s < S; ++s) x[s] = V::fma(score, V::load(other + s * kLanes), x[s]);
    };
    for (std::int64_t m = p.rows - 1; m >= i; --m) {
      add(p.scores_q[m * p.ldc + i], p.d_o + m * p.ld + d);
      if (m > i) add(p.scores[m * p.ldc + i], p.u + m * p.ld + d);
    }
#pragma GCC unroll 8
    for (unsigned s = 0; s < S; ++s) {
      const std::int64_t at = i * p.ld + d + s * kLanes;
      const V e = V::load(p.e + at);
      const V beta = p.headwise ? V::load(p.beta + at) : V::broadcast(p.beta[i]);
      if (p.headwise) (e * x[s]).store(p.d_beta + at);
      dots[i] = V::fma(e, x[s], dots[i]);
      ((V::broadcast(0.0f) - beta) * x[s]).store(row + s * kLanes);
    }
  }
}

template <class V>
void leaf_solve_back(const LeafSolve& p) {
  V dots[kLeaf];
  for (int i = 0; i < kLeaf; ++i) dots[i] = V::broadcast(0.0f);
  std::int64_t d = 0;
  for (; d + 4 * kLanes <= p.cols; d += 4 * kLanes) solve_back_strip<V, 4>(p, d, dots);
  for (; d < p.cols; d += kLanes) solve_back_strip<V, 1>(p, d, dots);
  if (p.headwise) return;
  float sums[kLanes];
  V::sums(dots).store(sums);
  for (std::int64_t i = 0; i < p.rows; ++i) p.d_beta[i] = sums[i];
}

template <class V>
void leaf_grad(const LeafGrad& p) {
  const auto at = [&](const float* x, std::int64_t row, std::int64_t d) {
    return V::load(x + row * p.ld + d);
  };
  for (std::int64_t d = 0; d < p.cols; d += kLanes)
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const float *da = p.d_scores_q + i * p.ldc, *dn = p.d_scores_k + i * p.ldc;
      const V q = at(p.q, i, d), k = at(p.k, i, d);
      V dq = at(p.dq, i, d), dk = at(p.dk, i, d);
      dq = V::fma(V::broadcast(da[i]), k, dq);
      dk = V::fma(V::broadcast(da[i]), q, dk);
      V decay = V::broadcast(1.0f), pair[kLeaf];
      for (std::int64_t j = i - 1; j >= 0; --j) {
        decay = decay * at(p.a, j + 1, d);
        const V reaching = decay * at(p.k, j, d);
        const V da_j = V::broadcast(da[j]), dn_j = V::broadcast(dn[j]);
        const V weight = V::fma(da_j, q, dn_j * k);
        dq = V::fma(da_j, reaching, dq);
        dk = V::fma(dn_j, reaching, dk);
        float* dk_j = p.dk + j * p.ld + d;
        V::fma(decay, weight, V::load(dk_j)).store(dk_j);
        pair[j] = reaching * weight;
      }
      V run = V::broadcast(0.0f);
      for (std::int64_t j = 0; j < i; ++j) {
        run = run + pair[j];
        float* dg = p.dg + (j + 1) * p.ld + d;
        (V::load(dg) + run).store(dg);
      }
      dq.store(p.dq + i * p.ld + d);
      dk.store(p.dk + i * p.ld + d);
    }
}

}  // namespace parity::kda_kernel
