// Step t: S~ = diag(exp g) S; e = v - S~^T k; u = beta e; S = S~ + k u^T; o = scale S^T q (kda.md
// §1).
//
// Companion M of one value column, in roundoffs (tolerance.md §3.2): the 2-norm over K of the error
// of S. (I - beta k k^T) does not expand it while 0 <= beta |k|^2 <= 2, so it is carried by max(1,
// |1 - beta |k|^2|) max_d a_d. Roundings of different tokens are independent and of zero mean, so
// their squares add up (Higham and Mary 2019), a token adding
//   |p S~|                                 the decayed state, p_d = 1 + |g_d| + error of g_d
//   beta |k| (|k| |x S~| + |v|)            the prediction and what is written, x_d = 1 + |G_d| +
//   error of G_d
// where G_d is the gate summed since the start of the 64-token block: a chunked kernel makes the
// decays that it reads with from differences of such prefix sums, and a difference is off by a
// roundoff of the sum (kda.md §4.4). At the end of a block the state itself is decayed so. Every
// read, of the output too, sees M and |x S~|.
#include <algorithm>
#include <cmath>

#include "references/kda/recurrence.hpp"
#include "references/kda/rows.hpp"

namespace parity::kda {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
double norm(const double* x, std::size_t n) { return std::sqrt(rows().dot(x, x, n)); }

}  // namespace

Chain chain_of(const Setup& s, const Inputs& in, const Activated& a, std::int64_t n,
               std::int64_t hv) {
  const std::int64_t row = s.starts[at(n)];
  Chain c;
  c.tokens = s.starts[at(n + 1)] - row;
  c.K = at(s.K);
  c.V = at(s.V);
  c.scale = s.scale;
  c.headwise = s.headwise;
  const std::size_t qk = at((row * s.H + s.qk_head(hv)) * s.K), value = at((row * s.HV + hv) * s.V),
                    gate = at((row * s.HV + hv) * s.K);
  c.q = a.q.data() + qk;
  c.k = a.k.data() + qk;
  c.v = in.v.data() + value;
  c.g = a.g.data() + gate;
  c.g_error = a.g_error.data() + gate;
  c.beta = a.beta.data() + at((row * s.HV + hv) * s.beta_width());
  c.d_o = in.d_o.empty() ? nullptr : in.d_o.data() + value;
  c.qk_stride = at(s.H * s.K);
  c.v_stride = at(s.HV * s.V);
  c.g_stride = at(s.HV * s.K);
  c.beta_stride = at(s.HV * s.beta_width());
  return c;
}

Carried begin(const Chain& c, const double* h0) {
  Carried x{Real(c.K * c.V), Real(c.V), Real(c.K), Real(c.K)};
  if (h0) std::copy(h0, h0 + c.K * c.V, x.S.begin());
  return x;
}

void decay_token(const Chain& c, std::int64_t t, Carried& x, Token& z) {
  const double *q = c.q + at(t) * c.qk_stride, *k = c.k + at(t) * c.qk_stride,
               *v = c.v + at(t) * c.v_stride;
  const double *g = c.g + at(t) * c.g_stride, *g_error = c.g_error + at(t) * c.g_stride,
               *beta = c.beta + at(t) * c.beta_stride;
  z.q_norm = std::abs(c.scale) * norm(q, c.K);
  z.k_norm = norm(k, c.K);
  if (t % kGateBlock == 0) {
    std::ranges::fill(x.G, 0);
    std::ranges::fill(x.G_error, 0);
  }
  std::ranges::fill(z.r, 0);
  std::ranges::fill(z.kept_2, 0);
  std::ranges::fill(z.read_2, 0);
  const Rows& loops = rows();
  for (std::size_t i = 0; i < c.K; ++i) {
    x.G[i] += g[i];
    x.G_error[i] += g_error[i] * g_error[i];
    z.a[i] = std::exp(g[i]);
    z.kept[i] = 1 + std::abs(g[i]) + g_error[i];
    z.read[i] = 1 + std::abs(x.G[i]) + std::sqrt(x.G_error[i]);
    loops.decay(&x.S[i * c.V], z.a[i], k[i], z.kept[i], z.read[i], z.r.data(), z.kept_2.data(),
                z.read_2.data(), c.V);
  }
  for (std::size_t j = 0; j < c.V; ++j) {
    z.beta[j] = c.headwise ? beta[j] : beta[0];
    z.e[j] = v[j] - z.r[j];
    z.u[j] = z.beta[j] * z.e[j];
  }
}

void advance_companion(const Chain& c, std::int64_t t, Token& z, Carried& x) {
  const double* v = c.v + at(t) * c.v_stride;
  const double widest = *std::ranges::max_element(z.a), k_2 = z.k_norm * z.k_norm;
  const bool block_ends = (t + 1) % kGateBlock == 0 || t + 1 == c.tokens;
  for (std::size_t j = 0; j < c.V; ++j) {
    const double b = std::abs(z.beta[j]), decayed = widest * x.M[j];
    const double carried = decayed * std::max(1.0, std::abs(1 - z.beta[j] * k_2));
    const double written = b * z.k_norm * (z.k_norm * std::sqrt(z.read_2[j]) + std::abs(v[j]));
    z.M_read[j] = std::sqrt(decayed * decayed + z.read_2[j]);
    x.M[j] =
        std::sqrt(carried * carried + (block_ends ? z.read_2[j] : z.kept_2[j]) + written * written);
  }
}

Outputs forward(const Setup& s, const Inputs& in, const Activated& a) {
  const std::size_t state = at(s.K * s.V);
  Outputs out{Graded(at(s.rows() * s.HV * s.V)), Graded(at(s.N * s.HV) * state)};
  Token z(at(s.K), at(s.V));
  const Rows& loops = rows();
  for (std::int64_t n = 0; n < s.N; ++n)
    for (std::int64_t hv = 0; hv < s.HV; ++hv) {
      const Chain c = chain_of(s, in, a, n, hv);
      const std::size_t block = at(n * s.HV + hv) * state;
      Carried x = begin(c, s.h0 ? in.h0.data() + block : nullptr);
      double* o = out.o.value.data() + at((s.starts[at(n)] * s.HV + hv) * s.V);
      double* o_scale = out.o.scale.data() + (o - out.o.value.data());
      for (std::int64_t t = 0; t < c.tokens; ++t, o += c.v_stride, o_scale += c.v_stride) {
        decay_token(c, t, x, z);
        advance_companion(c, t, z, x);
        const double *q = c.q + at(t) * c.qk_stride, *k = c.k + at(t) * c.qk_stride;
        for (std::size_t i = 0; i < c.K; ++i)
          loops.write(&x.S[i * c.V], k[i], z.u.data(), c.scale * q[i], o, c.V);
        for (std::size_t j = 0; j < c.V; ++j)
          o_scale[j] = z.q_norm * std::sqrt(x.M[j] * x.M[j] + z.read_2[j]);
      }
      for (std::size_t i = 0; i < c.K; ++i)
        for (std::size_t j = 0; j < c.V; ++j) {
          out.final_state.value[block + i * c.V + j] = x.S[i * c.V + j];
          out.final_state.scale[block + i * c.V + j] = x.M[j];
        }
    }
  return out;
}

}  // namespace parity::kda
