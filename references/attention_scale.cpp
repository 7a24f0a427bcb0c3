// Magnitude companions of attention: first-order error terms of every legal evaluation, in units of
// one relative error per sum (Higham, Accuracy and Stability, 2nd ed., §3.1).
//   logit    w_ts = scale sum_d |q_td k_sd|
//   weight   e_ts = w_ts + sum_r P_tr w_tr + |lse_t| + 2, relative: of the logit, of the sum, of a
//            rounded log sum exp in the backward, of exp and the division
//   o        sum_s P (e + 1) |v|             lse   sum_s P w + |lse| + 1
//   dP       a_ts = sum_v |do_tv v_sv|       delta A_t = sum_s P (e + 1) a
//   dZ       z_ts = P ((e + 2) |dP - delta| + a + A)
//   dq       scale sum_s z |k|,   dk   scale sum_t z |q|,   dv   sum_t P (e + 1) |do|
#include "references/attention_scale.hpp"

#include <algorithm>
#include <cmath>

#include "references/blocks/parts.hpp"

namespace parity::net {
namespace {

Array<double> magnitudes(Array<double> x) {
  for (double& value : x.data) value = std::abs(value);
  return x;
}

}  // namespace

AttentionScales attention_scales(const Run<double>& run, const AttentionHeads& in) {
  const Attended<double>& a = in.attended;
  const std::int64_t T = in.q.shape[0], H = in.q.shape[1], S = in.k.shape[0], G = in.k.shape[1];
  AttentionScales m{.o = Array<double>(a.o.shape),
                    .lse = Array<double>(a.lse.shape),
                    .q = Array<double>(in.q.shape),
                    .k = Array<double>(in.k.shape),
                    .v = Array<double>(in.v.shape)};
  for (std::int64_t h = 0; h < H; ++h) {
    const std::int64_t g = h / (H / G);
    const Array<double> q = magnitudes(head_of(in.q, h)), k = magnitudes(head_of(in.k, g)),
                        v_signed = head_of(in.v, g), v = magnitudes(v_signed),
                        do_signed = head_of(in.d_o, h), d_o = magnitudes(do_signed),
                        p = head_of(a.p, h);
    const Array<double> w = times_transposed(run, q, k),
                        dp = times_transposed(run, do_signed, v_signed),
                        terms = times_transposed(run, d_o, v);
    Array<double> weight({T, S}), dz({T, S});
    for (std::int64_t t = 0; t < T; ++t) {
      const double lse = std::isfinite(a.lse[t * H + h]) ? std::abs(a.lse[t * H + h]) : 0;
      double logits = 0, delta = 0, error = 0;
      for (std::int64_t s = 0; s < S; ++s) {
        logits += p[t * S + s] * w[t * S + s] * in.scale;
        delta += p[t * S + s] * dp[t * S + s];
      }
      m.lse[t * H + h] = logits + lse + 1;
      const auto e = [&](std::int64_t i) { return w[i] * in.scale + logits + lse + 2; };
      for (std::int64_t i = t * S; i < (t + 1) * S; ++i) {
        weight[i] = p[i] * (e(i) + 1);
        error += weight[i] * terms[i];
      }
      for (std::int64_t i = t * S; i < (t + 1) * S; ++i)
        dz[i] = in.scale * p[i] * ((e(i) + 2) * std::abs(dp[i] - delta) + terms[i] + error);
    }
    add_head(m.o, h, times(run, weight, v));
    add_head(m.q, h, times(run, dz, k));
    add_head(m.k, g, transposed_times(run, dz, q));
    add_head(m.v, g, transposed_times(run, weight, d_o));
  }
  return m;
}

}  // namespace parity::net
