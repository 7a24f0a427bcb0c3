// From the gradients of a chunk's operands to rows of the tensors.
#include <cstring>

#include "kernels/kda/backward.hpp"
#include "kernels/kda/fault_paths.hpp"

namespace parity::kda_kernel {
namespace {

void store_query_key(const Chunk& c, const PartialSums& sums, const GradientRows& r) {
  const Problem& p = c.p;
  const std::int64_t n = c.place.rows;
  if (p.group() > 1) {
    c.m.store(r.dq, c.ldk, n, p.K, c.rows(sums.dq, false, p.K));
    c.m.store(r.dk, c.ldk, n, p.K, c.rows(sums.dk, false, p.K));
    return;
  }
  finish_query_key(p, {.token = c.place.token,
                       .qk_head = c.place.hv,
                       .rows = n,
                       .ld = c.ldk,
                       .dq = r.dq,
                       .dk = r.dk,
                       .raw = r.scratch,
                       .rstd = c.rstd_q});
}

// One value a row, `stride` apart in the tensor.
void store_column(const Chunk& c, const float* x, const void* to, bool narrow) {
  if (!to) return;
  Stored row = c.rows(to, narrow, 1);
  for (std::int64_t i = 0; i < c.place.rows; ++i) {
    c.m.store(x + i, 0, 1, 1, row);
    row.data = static_cast<const std::byte*>(row.data) + row.stride * (narrow ? 2 : 4);
  }
}

void store_beta(const Chunk& c, const GradientRows& r) {
  const Problem& p = c.p;
  if (p.headwise)
    return c.m.store(r.d_beta, c.ldv, c.place.rows, p.V, c.rows(p.d_beta, p.d_beta_bf16, p.V));
  if (p.is(Fault::BetaGradientWithoutKey) ||
      (p.is(Fault::NoGateBranchSkipsKeyTerms) && p.gate == GateKind::Given))
    beta_gradient_without_key(c, r.minus_de, c.ldv, r.d_beta);
  store_column(c, r.d_beta, p.d_beta, p.d_beta_bf16);
  if (!p.d_logit) return;
  for (std::int64_t i = 0; i < c.place.rows; ++i) r.d_beta[i] *= c.beta_slope[i];
  store_column(c, r.d_beta, p.d_logit, p.bf16);
}

void store_gate(const Chunk& c, const GradientRows& r) {
  const Problem& p = c.p;
  const std::int64_t n = c.place.rows;
  if (p.dg) c.m.store(r.dg, c.ldk, n, p.K, c.rows(p.dg, false, p.K));
  if (p.gate == GateKind::Given) return;
  c.m.load(c.rows(p.gate_in, p.bf16, p.K), n, p.K, r.scratch, c.ldk);
  std::memset(r.gate_sums, 0, sizeof(float) * static_cast<std::size_t>(2 * c.Kp));
  c.m.gate_grad({.gate = c.gate(),
                 .rows = n,
                 .ld = c.ldk,
                 .cols = c.Kp,
                 .x = r.scratch,
                 .dg = r.dg,
                 .d_bias = r.gate_sums,
                 .d_coefficient = r.gate_sums + c.Kp});
  if (p.is(Fault::BiasSummedInBf16)) bias_sum_in_bf16(c, r.dg, r.gate_sums);
  c.m.store(r.dg, c.ldk, n, p.K, c.rows(p.d_raw, p.bf16, p.K));
}

}  // namespace

void store_gradients(const Chunk& c, const PartialSums& sums, const GradientRows& r) {
  const Problem& p = c.p;
  const std::int64_t n = c.place.rows;
  c.m.scale(r.minus_de, -1.0f, c.ldv, n, c.Vp);  // now dv
  c.m.store(r.minus_de, c.ldv, n, p.V, c.rows(p.dv, p.bf16, p.V));
  store_query_key(c, sums, r);
  store_beta(c, r);
  store_gate(c, r);
}

}  // namespace parity::kda_kernel
