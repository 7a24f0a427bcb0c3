// The backward of one chunk (kda.md §4.1) in the order and with the storage points of §4.2. With A
// = 2^(G_last):
//   dv'   = Aqk^T do, stored; + kg dS_out, stored again
//   dAqk  = scale tril(do v'^T)
//   dS_in = A dS_out + scale qg^T do - w^T dv'
//   dq    = scale 2^G (do S_in^T);  dk = 2^(G_last - G) (v' dS_out^T);  dW = -dv' S_in^T
//   dM    = strict_tril(dW (k 2^G)^T + dv' v^T) with beta on its columns;  dL = -strict_tril(M^T dM
//   M^T) dKb   = M^T dW;  dVb = M^T dv' dv    = beta dVb;  dbeta = v . dVb + (k 2^G) . dKb;  dk +=
//   beta 2^G dKb dG    = q dq - k dk_state + beta (k 2^G) dKb;  dG_last += sum k dk_state + A
//   rowsum(S_in dS_out)
// and then the terms of dAqk and dL (chunk_backward_products.cpp).
#include "references/kda/chunk_faults.hpp"

namespace parity::kda {
namespace {

// sum_v h dh by rows of K. Where the point is narrow, the products and their sums over 64 columns
// are too: eight columns in sequence, then the eight sums pairwise, as a thread and then its warp
// add them (a Triton sum keeps its operand's type).
Floats32 row_products(Engine& e, const Floats32& h, const Floats32& dh, std::size_t K,
                      std::size_t V) {
  constexpr std::size_t kColumns = 64, kRun = 8;
  Floats32 sums(K), product(K);
  const auto add = [&](Floats32& to, const Floats32& x) {
    for (std::size_t d = 0; d < K; ++d) to[d] += x[d];
    e.round(e.points.h_dh, to);
  };
  for (std::size_t first = 0; first < V; first += kColumns) {
    std::vector<Floats32> runs(kColumns / kRun, Floats32(K));
    for (std::size_t j = first; j < std::min(first + kColumns, V); ++j) {
      for (std::size_t d = 0; d < K; ++d) product[d] = h[d * V + j] * dh[d * V + j];
      e.round(e.points.h_dh, product);
      add(runs[(j - first) / kRun], product);
    }
    for (std::size_t half = runs.size() / 2; half > 0; half /= 2)
      for (std::size_t r = 0; r < half; ++r) add(runs[r], runs[r + half]);
    for (std::size_t d = 0; d < K; ++d) sums[d] += runs[0][d];
  }
  return sums;
}

// dL from dW and dv'.
Floats32 inverse_gradient(Engine& e, const Chunk& c, const Floats32& dw, const Floats32& dv_new) {
  const std::size_t n = c.n, K = static_cast<std::size_t>(e.setup.K),
                    V = static_cast<std::size_t>(e.setup.V);
  Floats32 kge(n * K), from_w, from_v, dM, product, dL;
  for (std::size_t p = 0; p < n * K; ++p) kge[p] = c.k[p] * c.eG[p];
  e.round(e.points.kge, kge);
  e.multiply(from_w, by_rows(dw, K), transposed(kge, n, K), n, n, K);
  e.multiply(from_v, by_rows(dv_new, V), transposed(c.v, n, V), n, n, V);
  dM.assign(n * n, 0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      dM[i * n + j] = (from_v[i * n + j] + from_w[i * n + j]) * c.beta[j];
  e.round(e.points.dm, dM);
  e.multiply(product, by_rows(dM, n), transposed(c.M, n, n), n, n, n);
  e.round(e.points.dm, product);
  e.multiply(dL, by_columns(c.M, n), product, n, n, n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) dL[i * n + j] = j < i ? -dL[i * n + j] : 0;
  return dL;
}

// dS_in = 2^(G_last) dS_out + scale qg^T do - w^T through, which is dv', or (I + L)^-T dv' where w
// is beta k 2^G, or beta times that where w is k 2^G.
void advance_adjoint(Engine& e, const Chunk& c, const Floats32& through, Floats32& dS) {
  if (e.has(Fault::ChunkHardCoded) && !c.second) return;
  const std::size_t n = c.n, K = static_cast<std::size_t>(e.setup.K),
                    V = static_cast<std::size_t>(e.setup.V);
  const auto scale = static_cast<float>(e.setup.scale);
  Floats32 from_q, from_w, decay = e.has(Fault::HeadZeroGates) ? c.stray : c.eLast;
  if (e.has(Fault::UndecayedAdjoint) || (e.has(Fault::UndecayedInitialState) && c.first))
    decay.assign(K, 1);
  if (e.chained) {
    for (std::size_t d = 0; d < K; ++d)
      for (std::size_t j = 0; j < V; ++j) dS[d * V + j] *= decay[d];
    Floats32 scaled_do = c.d_o;
    for (float& x : scaled_do) x *= scale;
    e.add_product(dS, by_columns(c.qg, K), scaled_do, K, V, n, 1);
    e.add_product(dS, by_columns(c.w, K), through, K, V, n, -1);
    return;
  }
  e.multiply(from_q, by_columns(c.qg, K), c.d_o, K, V, n);
  e.multiply(from_w, by_columns(c.w, K), through, K, V, n);
  for (std::size_t d = 0; d < K; ++d)
    for (std::size_t j = 0; j < V; ++j) {
      const std::size_t p = d * V + j;
      dS[p] = dS[p] * decay[d] + (from_q[p] * scale - from_w[p]);
    }
}

}  // namespace

void backward_chunk(Engine& e, const Chunk& c, Floats32& dS, ChainGradients& out) {
  const std::size_t n = c.n, K = static_cast<std::size_t>(e.setup.K),
                    V = static_cast<std::size_t>(e.setup.V);
  const auto scale = static_cast<float>(e.setup.scale);
  Floats32 dh = dS, product, dv_new, dAqk, dw, dk_state, dVb, dKb, dL;
  e.round(e.points.dh, dh);

  e.multiply(dv_new, by_columns(c.Aqk, n), c.d_o, n, V, n);
  e.round(e.points.dv_new, dv_new);
  e.multiply(dAqk, by_rows(c.d_o, V), transposed(c.v_new, n, V), n, n, V);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) dAqk[i * n + j] = j <= i ? dAqk[i * n + j] * scale : 0;
  e.add_product(dv_new, by_rows(c.kg, K), dh, n, V, K, 1);
  e.round(e.points.dv_new, dv_new);

  const Floats32 h_t = transposed(c.h, K, V), dh_t = transposed(dh, K, V);
  e.multiply(out.dq, by_rows(c.d_o, V), h_t, n, K, V);
  e.multiply(dk_state, by_rows(c.v_new, V), dh_t, n, K, V);
  Floats32 through = dv_new;  // what comes back to the state through w
  if (e.substitute || e.points.residual.on()) {
    if (e.substitute) {
      dVb = dv_new;
      solve_backward(c, dVb, V);
      through = dVb;
    } else {
      e.multiply(dVb, by_columns(c.M, n), dv_new, n, V, n);
      for (std::size_t p = 0; p < n * V; ++p) through[p] = dVb[p] * c.beta[p / V];
      e.round(e.points.adjoint, through);
      e.round(e.points.adjoint, dVb);
    }
    e.multiply(dKb, by_rows(dVb, V), h_t, n, K, V);
    for (float& x : dKb) x = -x;
    e.multiply(dL, by_rows(dVb, V), transposed(c.v_new, n, V), n, n, V);
    for (std::size_t p = 0; p < n * n; ++p) dL[p] = p % n < p / n ? -dL[p] : 0;
  } else {
    e.multiply(dw, by_rows(dv_new, V), h_t, n, K, V);
    for (float& x : dw) x = -x;
    e.round(e.points.dw, dw);
    e.multiply(dVb, by_columns(c.M, n), dv_new, n, V, n);
    e.multiply(dKb, by_columns(c.M, n), dw, n, K, n);
    dL = inverse_gradient(e, c, dw, dv_new);
  }
  advance_adjoint(e, c, through, dS);

  Floats32 dG_last = row_products(e, c.h, dh, K, V);
  for (std::size_t d = 0; d < K; ++d) dG_last[d] *= c.eLast[d];
  if (e.has(Fault::ScalarStateGradient) && c.last) dG_last.assign(K, e.scalar);
  const bool key_part =
      !e.has(Fault::DbetaWithoutKey) && !(e.has(Fault::NoKeyGradientWithoutGate) && e.open);
  const bool key_gradient = !(e.has(Fault::NoKeyGradientWithoutGate) && e.open);
  const float dq_scale = e.has(Fault::QueryUnscaled) ? 1.0F : scale;
  out.dk.resize(n * K);
  out.dG.resize(n * K);
  out.dv.resize(n * V);
  out.dbeta.assign(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < V; ++j) {
      out.dv[i * V + j] = dVb[i * V + j] * c.beta[i];
      out.dbeta[i] += dVb[i * V + j] * c.v[i * V + j];
    }
    for (std::size_t d = 0; d < K; ++d) {
      const std::size_t p = i * K + d;
      const float kge = c.k[p] * c.eG[p];
      out.dq[p] = out.dq[p] * c.eG[p] * dq_scale;
      const float dk = dk_state[p] * c.tail[p];
      if (key_part) out.dbeta[i] += dKb[p] * kge;
      dG_last[d] += c.k[p] * dk;
      out.dG[p] = c.q[p] * out.dq[p] - c.k[p] * dk + kge * dKb[p] * c.beta[i];
      out.dk[p] = key_gradient ? dk + dKb[p] * (c.eG[p] * c.beta[i]) : dk;
    }
  }
  if (c.padding) c.padding(dh, dG_last);
  if (!e.has(Fault::NoLastGate))
    for (std::size_t d = 0; d < K; ++d) out.dG[(n - 1) * K + d] += dG_last[d];
  backward_products(e, c, dAqk, dL, out);
  if (e.fault != Fault::None) damage_products(e, c, dAqk, out);
}

}  // namespace parity::kda
