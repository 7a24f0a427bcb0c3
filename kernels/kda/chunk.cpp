#include "kernels/kda/chunk.hpp"

#include <cmath>
#include <cstring>

namespace parity::kda_kernel {
namespace {

float element(const Stored& s, std::int64_t row) {
  if (!s.bf16) return static_cast<const float*>(s.data)[row * s.stride];
  const std::uint32_t bits =
      std::uint32_t{static_cast<const std::uint16_t*>(s.data)[row * s.stride]} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr float kNormEps = 1e-6f;

}  // namespace

std::int64_t chunk_count(const Problem& p, std::int64_t n) {
  return (p.sequences[static_cast<std::size_t>(n)].length + p.chunk - 1) / p.chunk;
}

Place place_of(const Problem& p, std::int64_t n, std::int64_t hv, std::int64_t index) {
  const Sequence& s = p.sequences[static_cast<std::size_t>(n)];
  const std::int64_t left = s.length - index * p.chunk;
  return {.n = n,
          .hv = hv,
          .index = index,
          .token = s.first + index * p.chunk,
          .rows = left < p.chunk ? left : p.chunk};
}

float* saved_state(const Problem& p, const Place& at) {
  const std::int64_t chunk = p.sequences[static_cast<std::size_t>(at.n)].first_chunk + at.index;
  return p.saved_states + (chunk * p.HV + at.hv) * p.K * p.V;
}

std::int64_t Chunk::floats(const Shape& s) {
  const std::int64_t ldk = leading(s.K), ldv = leading(s.V), ldc = leading(s.chunk), C = s.chunk;
  return 9 * C * ldk + 2 * C * ldc + pad(s.K) * ldc + 2 * C * (s.headwise ? ldv : 1) + 2 * C +
         pad(s.K);
}

Chunk::Chunk(const Problem& problem, Scratch& scratch)
    : p(problem),
      m(*problem.micro),
      C(problem.chunk),
      ldk(leading(problem.K)),
      ldv(leading(problem.V)),
      ldc(leading(problem.chunk)),
      Kp(pad(problem.K)),
      Vp(pad(problem.V)) {
  const auto rows = [&] { return scratch.take(C * ldk); };
  q = rows(), k = rows(), a = rows(), g = rows(), P = rows(), S = rows();
  D = rows(), qs = rows(), ks = rows();
  scores_q = scratch.take(C * ldc), scores_k = scratch.take(C * ldc);
  kT = scratch.take(Kp * ldc);
  const std::int64_t beta_size = C * (p.headwise ? ldv : 1);
  beta = scratch.take(beta_size), beta_slope = scratch.take(beta_size);
  rstd_q = scratch.take(C), rstd_k = scratch.take(C);
  bias_ = scratch.take(Kp);
}

Gate Chunk::gate() const {
  Gate gate{.kind = p.gate, .lower = p.lower, .bias = p.has_bias ? bias_ : nullptr};
  const std::int64_t head = p.is(Fault::GateParamsByQkHead) ? place.hv / p.group() : place.hv;
  if (p.has_A) gate.coefficient = static_cast<float>(std::exp(static_cast<double>(p.A_log[head])));
  return gate;
}

void Chunk::load(const Place& at) {
  place = at;
  const std::int64_t head = at.hv / p.group();
  m.load(p.rows(p.q, p.bf16, at.token, head, p.H, p.K), at.rows, p.K, q, ldk);
  m.load(p.rows(p.k, p.bf16, at.token, head, p.H, p.K), at.rows, p.K, k, ldk);
  if (p.l2norm) {
    normalise(q, rstd_q);
    normalise(k, rstd_k);
  }
  m.scale(q, p.scale, ldk, at.rows, Kp);
  load_gate();
  load_beta();
  m.decay_products(
      {.a = a, .out = P, .ld = ldk, .cols = Kp, .first = 0, .middle = 0, .last = at.rows});
  m.decay_products(
      {.a = a, .out = S, .ld = ldk, .cols = Kp, .first = 0, .middle = at.rows, .last = at.rows});
}

void Chunk::normalise(float* x, float* rstd) {
  const float eps = p.is(Fault::NormEpsOnMean) ? kNormEps * static_cast<float>(p.K) : kNormEps;
  m.normalise(x, ldk, place.rows, Kp, p.is(Fault::NormEpsOutsideRoot) ? 0.0f : eps, rstd);
  if (!p.is(Fault::NormEpsOutsideRoot)) return;
  for (std::int64_t i = 0; i < place.rows; ++i)
    m.scale(x + i * ldk, 1 / (1 + eps * rstd[i]), ldk, 1, Kp);
}

void Chunk::load_gate() {
  m.load(p.rows(p.gate_in, p.gate_bf16(), place.token, place.hv, p.HV, p.K), place.rows, p.K, a,
         ldk);
  if (p.has_bias) {
    const std::int64_t head = p.is(Fault::GateParamsByQkHead) ? place.hv / p.group() : place.hv;
    m.load({.data = p.dt_bias + head * p.K, .stride = p.K}, 1, p.K, bias_, Kp);
  }
  if (p.fault == Fault::None) {
    m.decay(gate(), a, ldk, place.rows, Kp, p.g_tap ? g : nullptr);
    return;
  }
  spoil_raw_gate(*this);
  m.decay(gate(), a, ldk, place.rows, Kp, g);
  spoil_decay(*this);
}

void Chunk::load_beta() {
  const std::int64_t n = place.rows;
  if (p.headwise) {
    m.load(p.rows(p.beta_in, p.bf16, place.token, place.hv, p.HV, p.V), n, p.V, beta, ldv);
    return;
  }
  const Stored column = p.rows(p.beta_in, p.bf16, place.token, place.hv, p.HV, 1);
  for (std::int64_t i = 0; i < C; ++i) beta[i] = i < n ? element(column, i) : 0.0f;
  if (!p.sigmoid) return;
  m.sigmoid(beta, C, beta, beta_slope);
  for (std::int64_t i = 0; i < C; ++i) {
    beta_slope[i] = p.beta_factor * (beta[i] * beta_slope[i]);
    beta[i] *= p.beta_factor;
  }
}

void Chunk::scale_tile(std::int64_t first, std::int64_t middle, std::int64_t last) {
  m.decay_products(
      {.a = a, .out = D, .ld = ldk, .cols = Kp, .first = first, .middle = middle, .last = last});
  m.multiply(k + first * ldk, D + first * ldk, 1.0f, ldk, last - first, Kp, ks + first * ldk);
  m.multiply(q + middle * ldk, D + middle * ldk, 1.0f, ldk, last - middle, Kp, qs + middle * ldk);
}

void Chunk::score(float sign) {
  score_leaves(sign);
  score_tiles(sign);
}

void Chunk::score_leaves(float sign) {
  if (p.fault != Fault::None &&
      !p.is(Fault::UpperTriangleUninitialised)) {  // faults read more than what is written
    std::memset(scores_q, 0, sizeof(float) * static_cast<std::size_t>(C * ldc));
    std::memset(scores_k, 0, sizeof(float) * static_cast<std::size_t>(C * ldc));
  }
  for (std::int64_t r = 0; r < place.rows; r += kLeaf) {
    const std::int64_t left = place.rows - r;
    // A register tile of a product that crosses the edge of this block reads a few scores to the
    // right of it.
    if (r + kLeaf < place.rows && !p.is(Fault::UpperTriangleUninitialised))
      for (std::int64_t i = r; i < r + kLeaf; ++i)
        std::memset(scores_q + i * ldc + r + kLeaf, 0, sizeof(float) * kLeaf);
    m.leaf_scores({.q = q + r * ldk,
                   .k = k + r * ldk,
                   .a = a + r * ldk,
                   .ld = ldk,
                   .cols = Kp,
                   .rows = left < kLeaf ? left : kLeaf,
                   .sign = sign,
                   .scores_q = scores_q + r * ldc + r,
                   .scores_k = scores_k + r * ldc + r,
                   .ldc = ldc});
  }
}

void Chunk::score_tiles(float sign) {
  each_tile([&](std::int64_t first, std::int64_t middle, std::int64_t last) {
    scale_tile(first, middle, last);
    m.transpose(ks + first * ldk, ldk, middle - first, Kp, kT, ldc);
    if (sign < 0) m.scale(ks + middle * ldk, sign, ldk, last - middle, Kp);
    Product product{.m = last - middle,
                    .n = middle - first,
                    .k = p.K,
                    .a = qs + middle * ldk,
                    .a_row = ldk,
                    .b = kT,
                    .ldb = ldc,
                    .out = scores_q + middle * ldc + first,
                    .ldo = ldc};
    m.product(product);
    product.a = ks + middle * ldk;
    product.out = scores_k + middle * ldc + first;
    m.product(product);
  });
}

void Chunk::fetch_ahead(const Place& next, Ahead& ahead) const {
  const auto add = [&](const void* data, bool narrow, std::int64_t head, std::int64_t heads) {
    const Stored rows = p.rows(data, narrow, next.token, head, heads, p.K);
    const std::int64_t bytes = narrow ? 2 : 4;
    ahead.add(data ? rows.data : nullptr, rows.stride * bytes, next.rows, p.K * bytes);
  };
  add(p.q, p.bf16, next.hv / p.group(), p.H);
  add(p.k, p.bf16, next.hv / p.group(), p.H);
  add(p.gate_in, p.gate_bf16(), next.hv, p.HV);
}

void Chunk::fetch_ahead(const Place& next, const void* data, bool narrow, std::int64_t width,
                        Ahead& ahead) const {
  const Stored rows = p.rows(data, narrow, next.token, next.hv, p.HV, width);
  const std::int64_t bytes = narrow ? 2 : 4;
  ahead.add(rows.data, rows.stride * bytes, next.rows, width * bytes);
}

}  // namespace parity::kda_kernel
