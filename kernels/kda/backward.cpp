// One chunk, backwards, with S the state before it, dS the gradient of the state after it, and du,
// de those of u and e:
//
//   du  = A^T do + (k S_to_end) dS          then du_i -= sum_{m>i} N_mi de_m from the last row to
//   the first de  = beta du ;  dv = de ;  dbeta = e . du        (no division by beta: e is saved)
//   dA  = do u^T ;  dN = -de u^T            lower triangles
//   [x; y] = [do; -de] S^T ;  z = u dS^T
//   dS  = diag(P_last) dS + [q P; k P]^T [do; -de]
//
// dq, dk gather P x, P y, S_to_end z and the tiles of dA, dN. The gate of token t is part of every
// product that reaches across it, so dg_t sums exactly the pairs j < t <= i, tile by tile, as
// running sums from the far ends: nothing is added that must cancel, neither the diagonal of dA nor
// pairs on one side of t.
#include "kernels/kda/backward.hpp"

#include <cstring>

#include "kernels/kda/fault_paths.hpp"
#include "kernels/kda/forward.hpp"
#include "kernels/kda/parallel.hpp"

namespace parity::kda_kernel {
namespace {

class BackwardWorker {
 public:
  BackwardWorker(const Problem& problem, const PartialSums& sums)
      : p(problem),
        m(*problem.micro),
        sums_(sums),
        scratch_(floats(problem)),
        c(problem, scratch_) {
    const auto k_rows = [&](std::int64_t n) { return scratch_.take(n * c.C * c.ldk); };
    const auto v_rows = [&](std::int64_t n) { return scratch_.take(n * c.C * c.ldv); };
    left_ = k_rows(2), kg_ = k_rows(1), xy_ = k_rows(2), z_ = k_rows(1);
    dq_ = k_rows(1), dk_ = k_rows(1), dg_ = k_rows(1);
    cotangents_ = v_rows(2), e_ = v_rows(1), u_ = v_rows(1);
    d_beta_ = scratch_.take(c.C * (p.headwise ? c.ldv : 1));
    uT_ = scratch_.take(c.Vp * c.ldc);
    d_scores_ = scratch_.take(2 * c.C * c.ldc);
    S_turned_ = scratch_.take(c.Vp * c.ldk);
    dS_turned_ = scratch_.take(c.Vp * c.ldk);
    dS_ = scratch_.take(p.K * c.ldv);
    through_ = scratch_.take(c.Kp);
    gate_sums_ = scratch_.take(2 * c.Kp);
  }

  void operator()(std::int64_t item) {
    const std::int64_t n = item / p.HV, hv = item % p.HV;
    load_state(p, p.d_ht, n, hv, dS_, c.ldv);
    double* gate = sums_.gate ? sums_.gate + item * 2 * p.K : nullptr;
    for (std::int64_t i = 0; gate && i < 2 * p.K; ++i) gate[i] = 0;
    for (std::int64_t i = chunk_count(p, n) - 1; i >= 0; --i) {
      step(place_of(p, n, hv, i));
      for (std::int64_t d = 0; gate && d < p.K; ++d) {
        gate[d] += static_cast<double>(gate_sums_[d]);
        gate[p.K + d] += static_cast<double>(gate_sums_[c.Kp + d]);
      }
    }
    store_state(p, dS_, c.ldv, n, hv, p.dh0);
  }

 private:
  static std::int64_t floats(const Problem& p) {
    const std::int64_t C = p.chunk, ldk = leading(p.K), ldv = leading(p.V), ldc = leading(C);
    return Chunk::floats(p) + 9 * C * ldk + 4 * C * ldv + C * (p.headwise ? ldv : 1) +
           pad(p.V) * (ldc + 2 * ldk) + 2 * C * ldc + p.K * ldv + 3 * pad(p.K);
  }

  void step(const Place& place) {
    c.load(place);
    look_ahead(place);
    if (anchored(p.fault, true))
      anchored_scores(c, 1.0f);
    else
      c.score(1.0f);
    const std::int64_t n = place.rows;
    load_saved(n);
    solve_back(n);
    m.transpose(u_, c.ldv, n, c.Vp, uT_, c.ldc);
    score_gradients(n);
    state_gradients(n);
    each_pair(n);
    update_state(n);
    if (p.fault != Fault::None) spoil_gradients(c, d_scores_, through_, dq_, dk_, dg_);
    store_gradients(c, sums_,
                    {.dq = dq_,
                     .dk = dk_,
                     .dg = dg_,
                     .minus_de = cotangents_ + n * c.ldv,
                     .d_beta = d_beta_,
                     .scratch = xy_,
                     .gate_sums = gate_sums_});
  }

  void look_ahead(const Place& at) {
    ahead_.clear();
    if (at.index == 0) return;
    const Place next = place_of(p, at.n, at.hv, at.index - 1);
    c.fetch_ahead(next, ahead_);
    c.fetch_ahead(next, p.d_o, p.bf16, p.V, ahead_);
    c.fetch_ahead(next, p.saved_errors, false, p.V, ahead_);
    ahead_.add(saved_state(p, next), p.K * 4, p.V, p.K * 4);
  }

  // The state before the chunk (turned), e, u = beta e, do; the products of operands and decays.
  void load_saved(std::int64_t n) {
    const float* state = saved_state(p, c.place);
    if (p.is(Fault::ChunkSizeHardCoded)) state = state_of_other_chunk_size(p, c.place);
    m.load({.data = state, .stride = p.K}, p.V, p.K, S_turned_, c.ldk);
    if (c.Vp > p.V)
      std::memset(S_turned_ + p.V * c.ldk, 0,
                  sizeof(float) * static_cast<std::size_t>((c.Vp - p.V) * c.ldk));
    m.load(c.rows(p.saved_errors, false, p.V), n, p.V, e_, c.ldv);
    if (p.headwise) {
      m.multiply(e_, c.beta, 1.0f, c.ldv, n, c.Vp, u_);
    } else {
      std::memcpy(u_, e_, sizeof(float) * static_cast<std::size_t>(n * c.ldv));
      for (std::int64_t i = 0; i < n; ++i) m.scale(u_ + i * c.ldv, c.beta[i], c.ldv, 1, c.Vp);
    }
    m.load(c.rows(p.d_o, p.bf16, p.V), n, p.V, cotangents_, c.ldv);
    m.multiply(c.q, c.P, 1.0f, c.ldk, n, c.Kp, left_);
    m.multiply(c.k, c.P, 1.0f, c.ldk, n, c.Kp, left_ + n * c.ldk);
    m.multiply(c.k, c.S, 1.0f, c.ldk, n, c.Kp, kg_);
  }

  // Rows n ... 2n of the cotangents become -de; d_beta. Products run from the last token on, do and
  // -de in turn, as the recurrence does: along repeated keys their sums cancel token by token, not
  // only in the end.
  void solve_back(std::int64_t n) {
    float* x = cotangents_ + n * c.ldv;
    m.product({.m = n,
               .n = c.Vp,
               .k = p.K,
               .a = kg_,
               .a_row = c.ldk,
               .b = dS_,
               .ldb = c.ldv,
               .out = x,
               .ldo = c.ldv,
               .ahead = &ahead_});
    for (std::int64_t r = (n - 1) / kLeaf * kLeaf; r >= 0; r -= kLeaf) {
      for (std::int64_t half = kLeaf; half < c.C; half *= 2) {
        const std::int64_t middle = r + kLeaf;
        if (middle % (2 * half) != half || middle >= n) continue;
        const std::int64_t first = middle - half, last = middle + half < n ? middle + half : n;
        const std::int64_t at = (last - 1) * c.ldc + first, row = (last - 1) * c.ldv;
        m.product({.m = half,
                   .n = c.Vp,
                   .k = last - middle,
                   .a = c.scores_q + at,
                   .a_row = 1,
                   .a_col = -c.ldc,
                   .b = cotangents_ + row,
                   .ldb = -c.ldv,
                   .out = x + first * c.ldv,
                   .ldo = c.ldv,
                   .onto = Onto::Keep,
                   .a2 = c.scores_k + at,
                   .b2 = x + row});
      }
      const std::int64_t beta_row = p.headwise ? c.ldv : 1, block = r * c.ldc + r, at = r * c.ldv;
      m.leaf_solve_back({.scores = c.scores_k + block,
                         .ldc = c.ldc,
                         .beta = c.beta + r * beta_row,
                         .headwise = p.headwise,
                         .ld = c.ldv,
                         .cols = c.Vp,
                         .rows = n - r < kLeaf ? n - r : kLeaf,
                         .e = e_ + at,
                         .u = x + at,
                         .scores_q = c.scores_q + block,
                         .d_o = cotangents_ + at,
                         .d_beta = d_beta_ + r * beta_row});
    }
  }

  // [dA; dN] = [do; -de] u^T, whole diagonal blocks: above the diagonal they hold what nobody
  // reads.
  void score_gradients(std::int64_t n) {
    for (std::int64_t r = 0; r < n; r += kLeaf)
      for (int half = 0; half < 2; ++half)
        m.product({.m = n - r < kLeaf ? n - r : kLeaf,
                   .n = r + kLeaf,
                   .k = p.V,
                   .a = cotangents_ + (half * n + r) * c.ldv,
                   .a_row = c.ldv,
                   .b = uT_,
                   .ldb = c.ldc,
                   .out = d_scores_ + (half * c.C + r) * c.ldc,
                   .ldo = c.ldc});
  }

  // dq, dk, dg as far as they reach through the states at both ends of the chunk.
  void state_gradients(std::int64_t n) {
    m.transpose(dS_, c.ldv, p.K, c.Vp, dS_turned_, c.ldk);
    m.product({.m = 2 * n,
               .n = c.Kp,
               .k = p.V,
               .a = cotangents_,
               .a_row = c.ldv,
               .b = S_turned_,
               .ldb = c.ldk,
               .out = xy_,
               .ldo = c.ldk,
               .ahead = &ahead_});
    m.product({.m = n,
               .n = c.Kp,
               .k = p.V,
               .a = u_,
               .a_row = c.ldv,
               .b = dS_turned_,
               .ldb = c.ldk,
               .out = z_,
               .ldo = c.ldk,
               .ahead = &ahead_});
    m.column_dots(S_turned_, dS_turned_, c.ldk, p.V, c.Kp, c.decay_of_chunk(), through_);
    m.chunk_grad({.rows = n,
                  .ld = c.ldk,
                  .cols = c.Kp,
                  .P = c.P,
                  .S = c.S,
                  .qg = left_,
                  .kt = left_ + n * c.ldk,
                  .kg = kg_,
                  .x = xy_,
                  .y = xy_ + n * c.ldk,
                  .z = z_,
                  .through = through_,
                  .dq = dq_,
                  .dk = dk_,
                  .dg = dg_});
  }

  // Adds what reaches from token to token inside the chunk.
  void each_pair(std::int64_t n) {
    const float *dA = d_scores_, *dN = d_scores_ + c.C * c.ldc;
    c.each_tile([&](std::int64_t first, std::int64_t middle, std::int64_t last) {
      c.scale_tile(first, middle, last);
      float *xq = xy_, *xk = xy_ + c.C * c.ldk, *y = z_;
      const std::int64_t at = middle * c.ldc + first;
      Product rows{.m = last - middle,
                   .n = c.Kp,
                   .k = middle - first,
                   .a = dA + at,
                   .a_row = c.ldc,
                   .b = c.ks + first * c.ldk,
                   .ldb = c.ldk,
                   .out = xq,
                   .ldo = c.ldk};
      m.product(rows);
      rows.a = dN + at, rows.out = xk;
      m.product(rows);
      Product columns{.m = middle - first,
                      .n = c.Kp,
                      .k = last - middle,
                      .a = dA + at,
                      .a_row = 1,
                      .a_col = c.ldc,
                      .b = c.qs + middle * c.ldk,
                      .ldb = c.ldk,
                      .out = y,
                      .ldo = c.ldk};
      m.product(columns);
      columns.a = dN + at, columns.b = c.ks + middle * c.ldk, columns.onto = Onto::Keep;
      m.product(columns);
      m.tile_grad({.first = first,
                   .middle = middle,
                   .last = last,
                   .ld = c.ldk,
                   .cols = c.Kp,
                   .D = c.D,
                   .qs = c.qs,
                   .ks = c.ks,
                   .xq = xq,
                   .xk = xk,
                   .y = y,
                   .dq = dq_,
                   .dk = dk_,
                   .dg = dg_});
    });
    for (std::int64_t r = 0; r < n; r += kLeaf) {
      const std::int64_t at = r * c.ldk, tile = r * c.ldc + r;
      m.leaf_grad({.q = c.q + at,
                   .k = c.k + at,
                   .a = c.a + at,
                   .ld = c.ldk,
                   .cols = c.Kp,
                   .rows = n - r < kLeaf ? n - r : kLeaf,
                   .d_scores_q = dA + tile,
                   .d_scores_k = dN + tile,
                   .ldc = c.ldc,
                   .dq = dq_ + at,
                   .dk = dk_ + at,
                   .dg = dg_ + at});
    }
  }

  void update_state(std::int64_t n) {
    const float* decay = c.decay_of_chunk();
    float* spoiled = S_turned_;  // no longer needed
    if (p.is(Fault::HeadZeroDecay)) head_zero_decay(c, spoiled), decay = spoiled;
    if (p.is(Fault::StateGradientNotDecayed)) {
      for (std::int64_t d = 0; d < p.K; ++d) spoiled[d] = 1;
      decay = spoiled;
    }
    const float *q = left_ + (n - 1) * c.ldk, *d_o = cotangents_ + (n - 1) * c.ldv;
    m.product({.m = p.K,
               .n = c.Vp,
               .k = n,
               .a = q,
               .a_row = 1,
               .a_col = -c.ldk,
               .b = d_o,
               .ldb = -c.ldv,
               .out = dS_,
               .ldo = c.ldv,
               .onto = Onto::ScaleRows,
               .row_scale = decay,
               .a2 = q + n * c.ldk,
               .b2 = d_o + n * c.ldv,
               .ahead = &ahead_});
  }

  const Problem& p;
  const Micro& m;
  const PartialSums& sums_;
  Scratch scratch_;
  Chunk c;
  Ahead ahead_ = {};
  float *left_, *kg_, *xy_, *z_, *dq_, *dk_, *dg_, *cotangents_, *e_, *u_, *d_beta_, *uT_,
      *d_scores_;
  float *S_turned_, *dS_turned_, *dS_, *through_, *gate_sums_;
};

}  // namespace

void chunked_backward(const Problem& p) {
  const PartialSums sums = partial_sums(p, p.workspace);
  for_each_item(p.threads, p.N * p.HV, [&] { return BackwardWorker(p, sums); });
  if (p.group() > 1) reduce_groups(p, sums);
  if (sums.gate) reduce_gate_sums(p, sums);
  clear_unused(p, p.dq, p.bf16, p.H * p.K);
  clear_unused(p, p.dk, p.bf16, p.H * p.K);
  clear_unused(p, p.dv, p.bf16, p.HV * p.V);
  clear_unused(p, p.dg, false, p.HV * p.K);
  clear_unused(p, p.d_raw, p.bf16, p.HV * p.K);
  clear_unused(p, p.d_beta, p.d_beta_bf16, p.HV * (p.headwise ? p.V : 1));
  clear_unused(p, p.d_logit, p.bf16, p.HV);
  if (p.fault != Fault::None) spoil_results(p);
}

}  // namespace parity::kda_kernel
