// The backward of kda.md §3, token by token from the end, with Lam = dL/dS_t:
//   Lam += scale q do^T;  dq = scale S do;  du = Lam^T k;  dbeta = e . du;  de = beta du = dv
//   dk = Lam u - S~ de;  D = Lam - k de^T;  dg = rowsum(D S~);  Lam = diag(a) D
// States are recomputed in segments of kSegment tokens from checkpoints, so that memory does not
// grow with T K V.
//
// Companions, in roundoffs. A is to Lam what M is to S: a 2-norm over K by value column, carried by
// the transposed, equally non-expansive operator, with |w Lam| (1 + beta |k|^2) + |scale q| |do|
// added a token. Then, to first order and with the columns' errors taken as independent (their
// squares add up):
//   dv    beta |k| A
//   dbeta |k| |e A| + |du M_e| + sum |e du|          M_e = |k| M~ + |v| + |r|, the error of e
//   dq    |scale| |M do| + |dq|
//   dk    |A u| + |l beta M_e| + |M~ de| + |n beta |k| A| + |dk|      l, n: norms of the columns of
//   w Lam and w S~ dg    |A S~| + a |D M| + w sum |D S~|, and what a chunked kernel adds: it sums q
//   dq - k dk over the rest of the block,
//         dg_t - dg_t+1 = q dq + k row - k col (kda.md §4.1), so the errors of those rows are in dg
//         however small it is
#include <algorithm>
#include <cmath>

#include "references/kda/recurrence.hpp"
#include "references/kda/rows.hpp"

namespace parity::kda {
namespace {

constexpr std::int64_t kSegment = 16;  // tokens whose decayed states are held at once

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Everything of one token that the backward reads again.
struct Kept {
  Token token;
  Real S;  // decayed state S~
  Real M;  // companion of the state before the token, and of S~
  Real M_decayed;
  Kept(std::size_t K, std::size_t V) : token(K, V), S(K * V), M(V), M_decayed(V) {}
};

void keep(const Chain& c, std::int64_t t, Carried& x, Kept& kept) {
  kept.M = x.M;
  decay_token(c, t, x, kept.token);
  kept.S = x.S;
  const double widest = *std::ranges::max_element(kept.token.a);
  for (std::size_t j = 0; j < c.V; ++j)
    kept.M_decayed[j] = widest * x.M[j] + std::sqrt(kept.token.norm_2[j]);
  advance_companion(c, t, kept.token, x);
  const double* k = c.k + at(t) * c.qk_stride;
  for (std::size_t i = 0; i < c.K; ++i) rows().add(&x.S[i * c.V], k[i], kept.token.u.data(), c.V);
}

// The adjoint of a chain between tokens.
struct Adjoint {
  Real lam, A;              // K x V, and V
  Real block_error;         // K: squared errors of the rows of dG in the rest of the block
  Real du, de, norm_2, Me;  // V
  Adjoint(std::size_t K, std::size_t V)
      : lam(K * V), A(V), block_error(K), du(V), de(V), norm_2(V), Me(V) {}
};

// Where the gradients of one token go; all are rows of the token's head.
struct Sinks {
  double *q, *q_scale, *k, *k_scale, *v, *v_scale, *g, *g_scale, *beta, *beta_scale;
};

double root_sum(std::size_t n, auto&& term) {
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const double x = term(j);
    sum += x * x;
  }
  return std::sqrt(sum);
}

void step_back(const Chain& c, std::int64_t t, const Kept& kept, Adjoint& x, const Sinks& out) {
  const Rows& loops = rows();
  const Token& z = kept.token;
  const std::size_t K = c.K, V = c.V;
  const double *q = c.q + at(t) * c.qk_stride, *k = c.k + at(t) * c.qk_stride,
               *v = c.v + at(t) * c.v_stride, *d_o = c.d_o + at(t) * c.v_stride;
  if ((t + 1) % kGateBlock == 0) std::ranges::fill(x.block_error, 0);
  std::ranges::fill(x.du, 0);
  std::ranges::fill(x.norm_2, 0);
  const double u_do = loops.dot(z.u.data(), d_o, V);
  const double dq_error = std::abs(c.scale) * root_sum(V, [&](std::size_t j) {
                            return (kept.M_decayed[j] + z.k_norm * std::abs(z.u[j])) * d_o[j];
                          });
  for (std::size_t i = 0; i < K; ++i) {
    const double state_do = loops.adjoint(&x.lam[i * V], &kept.S[i * V], c.scale * q[i], k[i],
                                          z.w[i], d_o, x.du.data(), x.norm_2.data(), V);
    const double dq = c.scale * (state_do + k[i] * u_do);
    out.q[i] += dq;
    out.q_scale[i] += dq_error + std::abs(dq);
    x.block_error[i] += (q[i] * dq_error) * (q[i] * dq_error);
  }
  const double k_2 = z.k_norm * z.k_norm, widest = *std::ranges::max_element(z.a);
  double e_du = 0, e_du_abs = 0;
  for (std::size_t j = 0; j < V; ++j) {
    x.A[j] += std::sqrt(x.norm_2[j]) + z.q_norm * std::abs(d_o[j]);
    x.de[j] = z.beta[j] * x.du[j];
    x.Me[j] = z.k_norm * kept.M_decayed[j] + std::abs(v[j]) + std::abs(z.r[j]);
    out.v[j] = x.de[j];
    out.v_scale[j] = std::abs(z.beta[j]) * z.k_norm * x.A[j] + std::abs(x.de[j]);
    const double product = z.e[j] * x.du[j];
    e_du += product;
    e_du_abs += std::abs(product);
    if (c.headwise) {
      out.beta[j] = product;
      out.beta_scale[j] =
          std::abs(z.e[j]) * z.k_norm * x.A[j] + std::abs(x.du[j]) * x.Me[j] + std::abs(product);
    }
  }
  if (!c.headwise) {
    out.beta[0] = e_du;
    out.beta_scale[0] = z.k_norm * root_sum(V, [&](std::size_t j) { return z.e[j] * x.A[j]; }) +
                        root_sum(V, [&](std::size_t j) { return x.du[j] * x.Me[j]; }) + e_du_abs;
  }
  const double dk_error =
      root_sum(V, [&](std::size_t j) { return x.A[j] * z.u[j]; }) +
      root_sum(V, [&](std::size_t j) { return std::sqrt(x.norm_2[j]) * z.beta[j] * x.Me[j]; }) +
      root_sum(V, [&](std::size_t j) { return kept.M_decayed[j] * x.de[j]; }) +
      root_sum(
          V, [&](std::size_t j) { return std::sqrt(z.norm_2[j]) * z.beta[j] * z.k_norm * x.A[j]; });
  for (std::size_t i = 0; i < K; ++i) {
    const BackwardSums sums = loops.close(&x.lam[i * V], &kept.S[i * V], z.a[i], k[i], z.u.data(),
                                          x.de.data(), x.A.data(), kept.M.data(), V);
    const double dk = sums.lam_u - sums.state_de;
    out.k[i] += dk;
    out.k_scale[i] += dk_error + std::abs(sums.lam_u) + std::abs(sums.state_de);
    x.block_error[i] += (k[i] * dk_error) * (k[i] * dk_error);
    out.g[i] = sums.d_state;
    out.g_scale[i] = std::sqrt(sums.lam_error) + z.a[i] * std::sqrt(sums.state_error) +
                     z.w[i] * sums.abs_d_state + std::sqrt(x.block_error[i]);
  }
  for (std::size_t j = 0; j < V; ++j) {
    const double b = std::abs(z.beta[j]);
    x.A[j] = widest * (std::max(1.0, std::abs(1 - z.beta[j] * k_2)) * x.A[j] +
                       std::sqrt(x.norm_2[j]) * b * k_2);
  }
}

}  // namespace

Gradients backward(const Setup& s, const Inputs& in, const Activated& a) {
  const std::size_t K = at(s.K), V = at(s.V), state = K * V;
  Gradients d;
  d.q = Graded(a.q.size());
  d.k = Graded(a.k.size());
  d.v = Graded(in.v.size());
  d.g = Graded(a.g.size());
  d.beta = Graded(a.beta.size());
  if (s.h0) d.h0 = Graded(at(s.N * s.HV) * state);
  std::vector<Kept> segment(at(kSegment), Kept(K, V));
  std::vector<Carried> checkpoints;
  for (std::int64_t n = 0; n < s.N; ++n)
    for (std::int64_t hv = 0; hv < s.HV; ++hv) {
      const Chain c = chain_of(s, in, a, n, hv);
      const std::size_t block = at(n * s.HV + hv) * state;
      checkpoints.clear();
      Carried x = begin(c, s.h0 ? in.h0.data() + block : nullptr);
      for (std::int64_t t = 0; t < c.tokens; ++t) {
        if (t % kSegment == 0) checkpoints.push_back(x);
        keep(c, t, x, segment[at(t % kSegment)]);
      }
      Adjoint adjoint(K, V);
      if (s.dht) std::copy_n(in.d_ht.data() + block, state, adjoint.lam.begin());
      for (std::int64_t first = (c.tokens - 1) / kSegment * kSegment; first >= 0 && c.tokens > 0;
           first -= kSegment) {
        const std::int64_t last = std::min(first + kSegment, c.tokens);
        Carried from = std::move(checkpoints.back());
        checkpoints.pop_back();
        if (last < c.tokens)
          for (std::int64_t t = first; t < last; ++t) keep(c, t, from, segment[at(t % kSegment)]);
        for (std::int64_t t = last - 1; t >= first; --t) {
          const std::int64_t row = s.starts[at(n)] + t;
          const std::size_t qk = at((row * s.H + s.qk_head(hv)) * s.K),
                            value = at((row * s.HV + hv) * s.V), gate = at((row * s.HV + hv) * s.K),
                            b = at((row * s.HV + hv) * s.beta_width());
          step_back(c, t, segment[at(t % kSegment)], adjoint,
                    {&d.q.value[qk], &d.q.scale[qk], &d.k.value[qk], &d.k.scale[qk],
                     &d.v.value[value], &d.v.scale[value], &d.g.value[gate], &d.g.scale[gate],
                     &d.beta.value[b], &d.beta.scale[b]});
        }
      }
      if (s.h0)
        for (std::size_t i = 0; i < K; ++i)
          for (std::size_t j = 0; j < V; ++j) {
            d.h0.value[block + i * V + j] = adjoint.lam[i * V + j];
            d.h0.scale[block + i * V + j] = adjoint.A[j];
          }
    }
  finish(s, in, a, d);
  return d;
}

}  // namespace parity::kda
