// The backward of kda.md §3, token by token from the end, with Lam = dL/dS_t:
//   Lam += scale q do^T;  dq = scale S do;  du = Lam^T k;  dbeta = e . du;  de = beta du = dv
//   dk = Lam u - S~ de;  D = Lam - k de^T;  dg = rowsum(D S~);  Lam = diag(a) D
// States are recomputed in segments of kSegment tokens from checkpoints, so that memory does not
// grow with T K V.
//
// Companions, in roundoffs; squares add up over tokens and over the columns v. A is to Lam what M
// is to S (forward.cpp): a 2-norm over K by column, carried by the transposed, equally
// non-expansive operator; a token adds |p Lam|, beta |k| (|k| |x Lam|) and |scale q| |do|. A' and
// M' are A and M as they are read: with |x Lam|, |x S~|. A row of K holds the share h = min(1, 2 /
// sqrt(K)) of either.
//   dq    h |scale| |(M' + |k| |u|) do| + |dq|
//   dv    beta |k| A' + |dv|
//   dbeta |k| |e A'| + |du M_e| + sum |e du|            M_e = |k| M' + |v| + |r|: error of e
//   dk    h |A' u| + |Lam beta M_e| + h |M' de| + |S~ beta |k| A'| + |Lam u| + |S~ de|
//   dg    h |A' S~| + h a |D M| + x sum |D S~|, and what a chunked kernel adds: it sums q dq - k dk
//         over the rest of the block, dg_t - dg_t+1 = q dq + k row - k col (kda.md §4.1), so the
//         errors of those rows are in dg however small it is
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
  Real M;  // companion of the state before the token
  Kept(std::size_t K, std::size_t V) : token(K, V), S(K * V), M(V) {}
};

void keep(const Chain& c, std::int64_t t, Carried& x, Kept& kept) {
  kept.M = x.M;
  decay_token(c, t, x, kept.token);
  kept.S = x.S;
  advance_companion(c, t, kept.token, x);
  const double* k = c.k + at(t) * c.qk_stride;
  for (std::size_t i = 0; i < c.K; ++i) rows().add(&x.S[i * c.V], k[i], kept.token.u.data(), c.V);
}

// The adjoint of a chain between tokens, and room for one.
struct Adjoint {
  Real lam, A;       // K x V, and V
  Real block_error;  // K: squared errors of the rows of dG in the rest of the block
  Real du, de, kept_2, read_2, A_read, u_error, de_error;  // V
  Adjoint(std::size_t K, std::size_t V)
      : lam(K * V),
        A(V),
        block_error(K),
        du(V),
        de(V),
        kept_2(V),
        read_2(V),
        A_read(V),
        u_error(V),
        de_error(V) {}
};

// Where the gradients of one token go; all are rows of the token's head.
struct Sinks {
  double *q, *q_scale, *k, *k_scale, *v, *v_scale, *g, *g_scale, *g_own, *g_row, *beta, *beta_scale;
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
  std::ranges::fill(x.kept_2, 0);
  std::ranges::fill(x.read_2, 0);
  const double share = std::min(1.0, 4 / std::sqrt(static_cast<double>(K)));
  const double k_2 = z.k_norm * z.k_norm, widest = *std::ranges::max_element(z.a);
  const double u_do = loops.dot(z.u.data(), d_o, V);
  const double dq_error = share * std::abs(c.scale) * root_sum(V, [&](std::size_t j) {
                            return (z.M_read[j] + z.k_norm * std::abs(z.u[j])) * d_o[j];
                          });
  for (std::size_t i = 0; i < K; ++i) {
    const double state_do =
        loops.adjoint(&x.lam[i * V], &kept.S[i * V], c.scale * q[i], k[i], z.kept[i], z.read[i],
                      d_o, x.du.data(), x.kept_2.data(), x.read_2.data(), V);
    const double dq = c.scale * (state_do + k[i] * u_do);
    out.q[i] += dq;
    out.q_scale[i] += dq_error + std::abs(dq);
    out.g_row[i] = std::abs(q[i]) * (dq_error + std::abs(dq));
  }
  double e_du = 0, e_du_abs = 0;
  for (std::size_t j = 0; j < V; ++j) {
    const double entering = z.q_norm * d_o[j], b = std::abs(z.beta[j]);
    const double error = z.k_norm * z.M_read[j] + std::abs(v[j]) + std::abs(z.r[j]);
    x.A[j] = std::sqrt(x.A[j] * x.A[j] + entering * entering);
    x.A_read[j] = std::sqrt(x.A[j] * x.A[j] + x.read_2[j]);
    x.de[j] = z.beta[j] * x.du[j];
    x.u_error[j] = b * error;
    x.de_error[j] = b * z.k_norm * x.A_read[j];
    out.v[j] = x.de[j];
    out.v_scale[j] = x.de_error[j] + std::abs(x.de[j]);
    const double product = z.e[j] * x.du[j];
    e_du += product;
    e_du_abs += std::abs(product);
    if (c.headwise) {
      out.beta[j] = product;
      out.beta_scale[j] =
          std::abs(z.e[j]) * z.k_norm * x.A_read[j] + std::abs(x.du[j]) * error + std::abs(product);
    }
    x.du[j] *= error;  // from here on only in the companion of dbeta
  }
  if (!c.headwise) {
    out.beta[0] = e_du;
    out.beta_scale[0] =
        z.k_norm * root_sum(V, [&](std::size_t j) { return z.e[j] * x.A_read[j]; }) +
        root_sum(V, [&](std::size_t j) { return x.du[j]; }) + e_du_abs;
  }
  const double from_lam = share * root_sum(V, [&](std::size_t j) { return x.A_read[j] * z.u[j]; });
  const double from_state =
      share * root_sum(V, [&](std::size_t j) { return z.M_read[j] * x.de[j]; });
  for (std::size_t i = 0; i < K; ++i) {
    const BackwardSums sums = loops.close(&x.lam[i * V], &kept.S[i * V], z.a[i], k[i],
                                          {z.u.data(), x.de.data(), x.A_read.data(), kept.M.data(),
                                           x.u_error.data(), x.de_error.data()},
                                          V);
    const double dk_error = from_lam + std::sqrt(sums.lam_u_error) + from_state +
                            std::sqrt(sums.state_de_error) + std::abs(sums.lam_u) +
                            std::abs(sums.state_de);
    out.k[i] += sums.lam_u - sums.state_de;
    out.k_scale[i] += dk_error;
    out.g_row[i] = std::hypot(out.g_row[i], k[i] * dk_error);
    x.block_error[i] += out.g_row[i] * out.g_row[i];
    out.g[i] = sums.d_state;
    out.g_own[i] = share * (std::sqrt(sums.lam_error) + z.a[i] * std::sqrt(sums.state_error)) +
                   z.read[i] * sums.abs_d_state;
    out.g_scale[i] = out.g_own[i] + std::sqrt(x.block_error[i]);
  }
  for (std::size_t j = 0; j < V; ++j) {
    const double b = std::abs(z.beta[j]),
                 carried = std::max(1.0, std::abs(1 - z.beta[j] * k_2)) * x.A[j];
    const double read = b * k_2;
    x.A[j] = widest * std::sqrt(carried * carried + x.kept_2[j] + read * read * x.read_2[j]);
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
  d.g_own.resize(a.g.size());
  d.g_row.resize(a.g.size());
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
                     &d.g_own[gate], &d.g_row[gate], &d.beta.value[b], &d.beta.scale[b]});
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
