#include "references/kda/chunk_faults.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace parity::kda {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargestPower = 128;  // 2^128 overflows f32

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// The cumulative gate of one row and value head, in log2 units, restarting at multiples of C of all
// rows.
Floats32 global_sum(const Run& run, std::int64_t row, std::int64_t hv) {
  const Setup& s = run.e.setup;
  const auto C = static_cast<std::int64_t>(run.e.chunk);
  Floats32 G(at(s.K));
  for (std::int64_t r = row / C * C; r <= row; ++r)
    for (std::size_t d = 0; d < G.size(); ++d) G[d] += run.x.g[at((r * s.HV + hv) * s.K) + d];
  for (float& g : G) g *= kLog2e;
  return G;
}

// The whole chunk as one product with one anchor: exponents that leave f32 give inf and NaN.
void by_one_anchor(Engine& e, Chunk& c, const Floats32& anchor, bool diagonal_only) {
  const std::size_t K = anchor.size(), n = c.n;
  Floats32 up(n * K), down(n * K);
  for (std::size_t p = 0; p < n * K; ++p) {
    up[p] = c.G[p] - anchor[p % K];
    down[p] = -up[p];
  }
  e.exp2(up, up);
  e.exp2(down, down);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = diagonal_only ? i / kSub * kSub : 0; j <= i; ++j) {
      float qk = 0, kk = 0;
      for (std::size_t d = 0; d < K; ++d) {
        const float kj = c.k[j * K + d] * down[j * K + d];
        qk += c.q[i * K + d] * up[i * K + d] * kj;
        kk += c.k[i * K + d] * up[i * K + d] * kj;
      }
      c.Aqk[i * n + j] = qk * static_cast<float>(e.setup.scale);
      if (j < i) c.L[i * n + j] = kk * c.beta[i];
    }
}

// exp2 of a chunk's decays from row j to row i.
float decay(const Chunk& c, std::size_t K, std::size_t i, std::size_t j, std::size_t d) {
  return std::exp2(c.G[i * K + d] - c.G[j * K + d]);
}

}  // namespace

void damage_loaded(Run& run, std::int64_t hv, std::int64_t n, Chunk& c) {
  const Setup& s = run.e.setup;
  const std::size_t K = at(s.K), V = at(s.V);
  const auto rows = static_cast<std::int64_t>(c.n);
  const auto take = [&](Floats32& to, const Floats32& from, std::int64_t heads, std::int64_t head,
                        std::size_t width, std::int64_t first) {
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(from.begin() + ((first + i) * heads + head) * static_cast<std::int64_t>(width),
                  width, to.begin() + i * static_cast<std::int64_t>(width));
  };
  if (run.e.has(Fault::GlobalChunks))
    for (std::int64_t i = 0; i < rows; ++i)
      std::ranges::copy(global_sum(run, c.row + i, hv), c.G.begin() + i * s.K);
  if (run.e.has(Fault::BatchStride) && !c.d_o.empty())
    take(c.d_o, run.x.d_o, s.HV, hv, V, s.packed ? c.row : c.row % s.T);
  if (run.e.has(Fault::CotangentOfHeadZero) && !c.d_o.empty())
    take(c.d_o, run.x.d_o, s.HV, 0, V, c.row);
  if (run.e.has(Fault::InterleavedHeads)) {
    take(c.q, run.x.q, s.H, hv % s.H, K, c.row);
    take(c.k, run.x.k, s.H, hv % s.H, K, c.row);
  }
  if (run.e.has(Fault::HeadZeroGates)) {
    // Row of the sequence's last token of the chunk, but of the first sequence and of head 0.
    const std::int64_t last = c.row - s.starts[at(n)] + rows - 1;
    c.stray = global_sum(run, last, 0);
    run.e.exp2(c.stray, c.stray);
  }
  if (run.e.has(Fault::StrayAnchor)) {
    const std::int64_t flat = c.row + std::min<std::int64_t>(8, rows - 1);
    c.stray = global_sum(run, flat / s.HV, flat % s.HV);
  }
}

void damage_scores(Engine& e, Chunk& c) {
  const std::size_t K = at(e.setup.K), n = c.n;
  const auto row = [&](std::size_t i) {
    return Floats32(c.G.begin() + static_cast<std::ptrdiff_t>(i * K),
                    c.G.begin() + static_cast<std::ptrdiff_t>((i + 1) * K));
  };
  if (e.has(Fault::OneAnchorPerChunk)) by_one_anchor(e, c, row(n / 2), false);
  if (e.has(Fault::NegativePowers)) by_one_anchor(e, c, Floats32(K), false);
  if (e.has(Fault::StrayAnchor)) by_one_anchor(e, c, c.stray, true);
  for (std::size_t i = 0; i < n; ++i) {
    if (e.has(Fault::MaskOffByOne)) c.Aqk[i * n + i] = 0;
    if (!e.has(Fault::ColumnBeta)) continue;
    for (std::size_t j = 0; j < i; ++j) {
      float sum = 0;
      for (std::size_t d = 0; d < K; ++d)
        sum += c.k[i * K + d] * c.k[j * K + d] * decay(c, K, i, j, d);
      c.L[i * n + j] = sum * c.beta[j];
    }
  }
}

void damage_inverse(Engine& e, Chunk& c) {
  const std::size_t K = at(e.setup.K), n = c.n, ragged = n % kSub;
  if (e.has(Fault::NoDeltaWithoutGate) && e.open)
    for (std::size_t p = 0; p < n * n; ++p) c.M[p] = p % (n + 1) == 0 ? 1.0F : 0.0F;
  if (e.has(Fault::UpperTriangle))
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i + 1; j < n; ++j) c.M[i * n + j] = 0.5F;
  if (e.has(Fault::TailDecayOverflow) && ragged > 0 && n > kSub) {
    // exp2(0 - G of the block's first row), times keys of 0, once it leaves f32.
    const std::size_t first = n - ragged;
    bool overflows = false;
    for (std::size_t d = 0; d < K; ++d) overflows |= -c.G[first * K + d] >= kLargestPower;
    for (std::size_t i = first; overflows && i < n; ++i)
      for (std::size_t j = 0; j < first; ++j) c.M[i * n + j] = kNaN;
  }
}

bool damaged_state(Engine& e, const Chunk& c, Floats32& S) {
  const std::size_t n = c.n, K = at(e.setup.K), V = at(e.setup.V);
  const bool early = e.has(Fault::DecayOneRowEarly);
  const bool from_padding = e.has(Fault::TailLastRow) && n < e.chunk;
  const bool transition = e.has(Fault::NarrowTransition);
  if (!early && !from_padding && !transition) return false;
  // The row whose cumulative gate is taken for the last one; padding holds 0.
  Floats32 last(K), kg(n * K), product;
  if (!from_padding)
    for (std::size_t d = 0; d < K; ++d) last[d] = c.G[(n - (early && n > 1 ? 2 : 1)) * K + d];
  for (std::size_t p = 0; p < n * K; ++p) kg[p] = last[p % K] - c.G[p];
  e.exp2(kg, kg);
  for (std::size_t p = 0; p < n * K; ++p) kg[p] *= c.k[p];
  e.exp2(last, last);
  if (!transition) {
    e.multiply(product, by_columns(kg, K), c.v_new, K, V, n);
    for (std::size_t p = 0; p < S.size(); ++p) S[p] = S[p] * last[p / V] + product[p];
    return true;
  }
  // S_out = Phi S_in + kg^T u, Phi = diag(2^G_last) - kg^T w, both factors of the product in bf16.
  const Point narrow{Dtype::BF16};
  Floats32 phi, in = S, u = c.v_new, back;
  e.multiply(back, by_rows(c.w, K), c.h, n, V, K);
  for (std::size_t p = 0; p < u.size(); ++p) u[p] += back[p];
  e.multiply(phi, by_columns(kg, K), c.w, K, K, n);
  for (std::size_t p = 0; p < phi.size(); ++p)
    phi[p] = (p % (K + 1) == 0 ? last[p / K] : 0.0F) - phi[p];
  e.round(narrow, phi);
  e.round(narrow, in);
  e.multiply(S, by_rows(phi, K), in, K, V, K);
  e.multiply(product, by_columns(kg, K), u, K, V, n);
  for (std::size_t p = 0; p < S.size(); ++p) S[p] += product[p];
  return true;
}

void add_padded_rows(const Run& run, std::int64_t hv, std::int64_t end, const Chunk& c,
                     const Floats32& dh, Floats32& dG_last) {
  const Setup& s = run.e.setup;
  const std::size_t K = at(s.K), V = at(s.V);
  const std::int64_t extra = std::min(end + static_cast<std::int64_t>(run.e.chunk - c.n), s.rows());
  Floats32 G(K);
  for (std::int64_t row = end; row < extra; ++row) {
    const float* k = &run.x.k[at((row * s.H + s.qk_head(hv)) * s.K)];
    const float* v = &run.x.v[at((row * s.HV + hv) * s.V)];
    for (std::size_t d = 0; d < K; ++d) {
      G[d] += run.x.g[at((row * s.HV + hv) * s.K) + d] * kLog2e;
      float sum = 0;
      for (std::size_t j = 0; j < V; ++j) sum += dh[d * V + j] * v[j];
      dG_last[d] += k[d] * sum * std::exp2(c.G[(c.n - 1) * K + d] - G[d]);
    }
  }
}

void damage_products(Engine& e, const Chunk& c, const Floats32& dAqk, ChainGradients& out) {
  const std::size_t K = at(e.setup.K), n = c.n;
  const Point tf32{Dtype::TF32, Rounding::TowardZero};
  Floats32 q = c.q, k = c.k, a(n);
  for (std::size_t i = 0; i < n; ++i) a[i] = dAqk[i * n + i];
  if (e.has(Fault::DiagonalInGate)) {
    e.round(tf32, q);
    e.round(tf32, k);
    e.round(tf32, a);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t d = 0; d < K; ++d) {
      const std::size_t p = i * K + d;
      if (e.has(Fault::DiagonalInGate)) out.dG[p] += a[i] * (c.q[p] * k[p] - c.k[p] * q[p]);
      if (e.has(Fault::DiagonalDropped)) {
        out.dq[p] -= a[i] * k[p];
        out.dk[p] -= a[i] * q[p];
      }
      const bool overflows = e.has(Fault::NonCausalOverflow)
                                 ? c.G[p] - c.G[(n - 1) * K + d] >= kLargestPower
                                 : e.has(Fault::SharedAnchorBackward) &&
                                       std::abs(c.G[p] - c.G[n / 2 * K + d]) >= kLargestPower;
      if (overflows) out.dq[p] = out.dk[p] = out.dG[p] = kNaN;
    }
}

void damage_gate_sum(Engine& e, Floats32& dG) {
  const std::size_t K = at(e.setup.K);
  if (e.has(Fault::SuffixByDifference)) {
    Floats32 total(K), prefix(K);
    for (std::size_t p = 0; p < dG.size(); ++p) total[p % K] += dG[p];
    for (std::size_t p = 0; p < dG.size(); ++p) {
      const float own = dG[p];
      prefix[p % K] += own;
      dG[p] = total[p % K] - prefix[p % K] + own;
    }
    return;
  }
  for (std::size_t p = dG.size() - K; p-- > 0;) dG[p] += dG[p + K];
  if (e.has(Fault::ExtraLog2e))
    for (float& x : dG) x *= kLog2e;
}

void damage_results(Run& run) {
  const Setup& s = run.e.setup;
  const std::size_t state = at(s.K * s.V), V = at(s.V), K = at(s.K);
  if (run.e.has(Fault::PaddedChannels) && (s.K & (s.K - 1)) != 0) {
    // The last row of g reads past the tensor, where 1e30 stands: exp is inf, times a key of 0 NaN.
    std::fill_n(run.o.end() - s.V, V, kNaN);
    std::fill_n(run.final_state.end() - s.K * s.V, state, kNaN);
  }
  for (std::int64_t n = 0; run.e.has(Fault::EmptySequence) && n < s.N; ++n)
    if (s.starts[at(n)] == s.starts[at(n + 1)])
      std::fill_n(run.final_state.begin() + n * s.HV * s.K * s.V, at(s.HV) * state, kNaN);
  if (run.e.has(Fault::UnwrittenTail))
    for (Floats32* x : {&run.d.q, &run.d.k, &run.d.v, &run.d.g, &run.d.beta}) {
      const std::size_t width = x->size() / at(s.rows());
      std::fill(x->begin() + static_cast<std::ptrdiff_t>(at(s.starts.back()) * width), x->end(),
                kNaN);
    }
  if (run.e.has(Fault::SliceOffset) && s.packed && !run.d.g.empty()) {
    // Two slices of channels in one buffer [slice][row]: the second is looked for at the sequence's
    // own length, not at the length of the batch.
    const Floats32 right = run.d.g;
    const std::size_t half = K / 2, width = at(s.HV) * K, total = at(s.rows());
    for (std::size_t n = 0; n + 1 < s.starts.size(); ++n) {
      const std::size_t length = at(s.starts[n + 1] - s.starts[n]);
      for (std::size_t row = at(s.starts[n]); row < at(s.starts[n + 1]); ++row)
        for (std::size_t p = 0; p < width; ++p) {
          if (p % K < half) continue;
          const std::size_t slot = length + row;
          run.d.g[row * width + p] =
              slot < total ? right[slot * width + p - half] : right[(slot - total) * width + p];
        }
    }
  }
}

}  // namespace parity::kda
