// The state pass and the output of one chunk (kda.md §4):
//   v' = u - w S;  o = scale qg S + Aqk v';  S <- 2^(G_last) S + kg^T v'
#include <algorithm>
#include <limits>

#include "references/kda/chunk_faults.hpp"

namespace parity::kda {

const std::uint16_t* Orders::of(std::size_t length) {
  if (seed_ == 0 || length < 2) return nullptr;
  std::vector<std::uint16_t>& order = orders_[length];
  if (order.empty()) {
    const Noise draw{seed_ + length, true};
    for (std::size_t i = 0; i < length; ++i) order.push_back(static_cast<std::uint16_t>(i));
    for (std::size_t i = length - 1; i > 0; --i) std::swap(order[i], order[draw.of(i) % (i + 1)]);
  }
  return order.data();
}

void Engine::multiply(Floats32& c, Strided a, const Floats32& b, std::size_t n, std::size_t m,
                      std::size_t k) {
  c.resize(n * m);
  if (!has(Fault::NarrowAccumulator))
    return dense().multiply(c.data(), a, b.data(), n, m, k, orders.of(k));
  const Point narrow{Dtype::BF16};
  Floats32 sum(n * m), part(n * m);
  for (std::size_t first = 0; first < k; first += kSub) {
    dense().multiply(part.data(), {a.data + first * a.column, a.row, a.column},
                     b.data() + first * m, n, m, std::min(kSub, k - first), nullptr);
    for (std::size_t p = 0; p < sum.size(); ++p) sum[p] += part[p];
    round(narrow, sum);
  }
  std::ranges::copy(sum, c.begin());
}

void Engine::add_product(Floats32& c, Strided a, const Floats32& b, std::size_t n, std::size_t m,
                         std::size_t k, float sign) {
  if (!chained) {
    Floats32 product;
    multiply(product, a, b, n, m, k);
    for (std::size_t p = 0; p < n * m; ++p) c[p] += sign * product[p];
    return;
  }
  const std::uint16_t* order = orders.of(k);
  for (std::size_t step = 0; step < k; ++step) {
    const std::size_t t = order ? order[step] : step;
    for (std::size_t i = 0; i < n; ++i) {
      const float factor = sign * a.data[i * a.row + t * a.column];
      for (std::size_t j = 0; j < m; ++j) c[i * m + j] += factor * b[t * m + j];
    }
  }
}

void Engine::exp2(Floats32& y, const Floats32& x) const {
  y.resize(x.size());
  if (has(Fault::ClampedExponent)) {
    std::ranges::transform(x, y.begin(), [](float z) { return std::max(z, -5 * kLog2e); });
    dense().exp2(y.data(), y.data(), y.size());
    return;
  }
  Floats32 exponents;
  if (has(Fault::LowExponential)) exponents = x;
  dense().exp2(y.data(), x.data(), x.size());
  for (std::size_t p = 0; p < exponents.size(); ++p)
    if (exponents[p] != 0) y[p] *= 1 - 5e-4F;
}

Floats32 transposed(const Floats32& x, std::size_t rows, std::size_t columns) {
  Floats32 y(x.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
  return y;
}

namespace {

// M (beta (v - (k 2^G) S)): with one rounding in place of those of w and u.
Floats32 residual_through_inverse(Engine& e, Chunk& c) {
  const std::size_t n = c.n, K = static_cast<std::size_t>(e.setup.K),
                    V = static_cast<std::size_t>(e.setup.V);
  Floats32 residual = c.v, v_new;
  for (std::size_t p = 0; p < n * K; ++p) c.w[p] = c.k[p] * c.eG[p];
  e.round(e.points.kbg, c.w);
  e.add_product(residual, by_rows(c.w, K), c.h, n, V, K, -1);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < V; ++j) residual[i * V + j] *= c.beta[i];
  e.round(e.points.residual, residual);
  e.multiply(v_new, by_rows(c.M, n), residual, n, V, n);
  return v_new;
}

}  // namespace

void forward_chunk(Engine& e, Chunk& c, Floats32& S, float* o, std::size_t o_stride) {
  const std::size_t n = c.n, K = static_cast<std::size_t>(e.setup.K),
                    V = static_cast<std::size_t>(e.setup.V);
  const float* last = &c.G[(n - 1) * K];
  e.exp2(c.eG, c.G);
  if (e.noise.on) jitter(c.eG, e.noise);
  c.eLast.assign(c.eG.end() - static_cast<std::ptrdiff_t>(K), c.eG.end());
  c.tail.resize(n * K);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t d = 0; d < K; ++d) c.tail[i * K + d] = last[d] - c.G[i * K + d];
  e.exp2(c.tail, c.tail);
  if (e.noise.on) jitter(c.tail, e.noise);

  Floats32 beta_v(n * V), beta_k(n * K), u;
  c.kg.resize(n * K);
  c.qg.resize(n * K);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < V; ++j) beta_v[i * V + j] = c.v[i * V + j] * c.beta[i];
    for (std::size_t d = 0; d < K; ++d) {
      const std::size_t p = i * K + d;
      beta_k[p] = c.k[p] * c.beta[i];
      c.kg[p] = c.k[p] * c.tail[p];
      c.qg[p] = c.q[p] * c.eG[p];
    }
  }
  e.round(e.points.beta_v, beta_v);
  e.round(e.points.beta_k, beta_k);
  for (std::size_t p = 0; p < n * K; ++p) beta_k[p] *= c.eG[p];
  e.round(e.points.kbg, beta_k);
  e.round(e.points.kg, c.kg);
  e.round(e.points.qg, c.qg);
  c.h = S;
  e.round(e.points.h, c.h);
  Floats32 product, inside;
  if (e.substitute) {
    c.w = beta_k;
    u = beta_v;
  } else {
    e.multiply(u, by_rows(c.M, n), beta_v, n, V, n);
    e.multiply(c.w, by_rows(c.M, n), beta_k, n, K, n);
    e.round(e.points.u, u);
    e.round(e.points.w, c.w);
  }
  if (e.points.residual.on()) u = residual_through_inverse(e, c);
  const bool corrected = !e.points.residual.on() && !(e.has(Fault::NoDeltaWithoutGate) && e.open);
  c.v_new = std::move(u);
  if (corrected) e.add_product(c.v_new, by_rows(c.w, K), c.h, n, V, K, -1);
  if (e.substitute && corrected) solve_forward(c, c.v_new, V);
  e.round(e.points.v_new, c.v_new);

  const auto scale = e.has(Fault::InterChunkScale) ? 1.0F : static_cast<float>(e.setup.scale);
  const Floats32& state = e.has(Fault::StateTransposed) && K == V ? transposed(c.h, K, V) : c.h;
  e.multiply(product, by_rows(c.qg, K), state, n, V, K);
  e.multiply(inside, by_rows(c.Aqk, n), c.v_new, n, V, n);
  const std::size_t written = e.has(Fault::LastTileDropped) ? n / kSub * kSub : n;
  for (std::size_t i = 0; i < written; ++i)
    for (std::size_t j = 0; j < V; ++j)
      o[i * o_stride + j] = product[i * V + j] * scale + inside[i * V + j];

  if (e.fault == Fault::None || !damaged_state(e, c, S)) {
    for (std::size_t d = 0; d < K; ++d)
      for (std::size_t j = 0; j < V; ++j) S[d * V + j] *= c.eLast[d];
    e.add_product(S, by_columns(c.kg, K), c.v_new, K, V, n, 1);
  }
  if (e.has(Fault::TailSolveGarbage) && n % kSub != 0)
    std::ranges::fill(S, std::numeric_limits<float>::quiet_NaN());
  e.round(e.points.state, S);
}

}  // namespace parity::kda
