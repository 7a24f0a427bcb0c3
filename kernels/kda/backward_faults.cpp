#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/kda/fault_paths.hpp"

namespace parity::kda_kernel {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float truncate_tf32(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u);
}

// q_i dA_ii k_i - k_i dA_ii q_i, each product of operands cut to TF32, summed over the rows from t
// on.
void add_diagonal(const Chunk& c, const float* dA, float* dg) {
  for (std::int64_t d = 0; d < c.p.K; ++d) {
    float run = 0;
    for (std::int64_t i = c.place.rows - 1; i >= 0; --i) {
      const float q = c.q[i * c.ldk + d], k = c.k[i * c.ldk + d],
                  diagonal = truncate_tf32(dA[i * c.ldc + i]);
      run += q * (diagonal * truncate_tf32(k)) - k * (diagonal * truncate_tf32(q));
      dg[i * c.ldk + d] += run;
    }
  }
}

// r_t = total - prefix_t + x_t in place of the sum of x from t on.
void sum_by_difference(const Chunk& c, float* dg) {
  const std::int64_t n = c.place.rows;
  for (std::int64_t d = 0; d < c.p.K; ++d) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < n; ++i)
      x.push_back(dg[i * c.ldk + d] - (i + 1 < n ? dg[(i + 1) * c.ldk + d] : 0));
    float total = 0, prefix = 0;
    for (const float value : x) total += value;
    for (std::int64_t i = 0; i < n; ++i) {
      prefix += x[static_cast<std::size_t>(i)];
      dg[i * c.ldk + d] = total - prefix + x[static_cast<std::size_t>(i)];
    }
  }
}

// 0 exp(G_i - G_j) of the pairs j > i, whose exponent is positive.
void mask_after_exp(const Chunk& c, float* dq, float* dk) {
  for (std::int64_t d = 0; d < c.p.K; ++d)
    for (std::int64_t i = 0; i < c.place.rows; ++i) {
      float exponent = 0;
      for (std::int64_t j = i + 1; j < c.place.rows; ++j) {
        exponent -= c.g[j * c.ldk + d];
        const float masked = 0 * std::exp(exponent);
        dq[i * c.ldk + d] += masked;
        dk[j * c.ldk + d] += masked;
      }
    }
}

void add_padded_rows(const Chunk& c, float* dg) {
  for (std::int64_t r = c.place.rows; r < c.C; ++r)
    for (std::int64_t i = 0; i < c.place.rows; ++i)
      for (std::int64_t d = 0; d < c.p.K; ++d)
        dg[i * c.ldk + d] += c.k[r * c.ldk + d] * c.q[r * c.ldk + d];
}

// <S_T, dS_T> of one sequence and head, from the last saved state.
double state_dot(const Problem& p, Chunk& c, std::int64_t n, std::int64_t hv) {
  const std::int64_t chunks = chunk_count(p, n);
  if (chunks == 0 || !p.d_ht) return 0;
  c.load(place_of(p, n, hv, chunks - 1));
  const std::int64_t index = p.sequences[static_cast<std::size_t>(n)].first_chunk + chunks - 1,
                     rows = c.place.rows;
  const float* S = p.saved_states + (index * p.HV + hv) * p.K * p.V;
  std::vector<float> cotangent(static_cast<std::size_t>(p.K * c.ldv));
  load_state(p, p.d_ht, n, hv, cotangent.data(), c.ldv);
  double sum = 0;
  for (std::int64_t k = 0; k < p.K; ++k)
    for (std::int64_t v = 0; v < p.V; ++v) {
      double state = static_cast<double>(c.decay_of_chunk()[k] * S[v * p.K + k]);
      for (std::int64_t i = 0; i < rows; ++i) {
        const float beta = p.headwise ? c.beta[i * c.ldv + v] : c.beta[i];
        const float e = p.saved_errors[((c.place.token + i) * p.HV + hv) * p.V + v];
        state += static_cast<double>(c.k[i * c.ldk + k] * c.S[i * c.ldk + k] * beta * e);
      }
      sum += state * static_cast<double>(cotangent[static_cast<std::size_t>(k * c.ldv + v)]);
    }
  return sum;
}

void add_state_dots(const Problem& p) {
  if (!p.dg) return;
  Scratch scratch(Chunk::floats(p));
  Chunk c(p, scratch);
  double sum = 0;
  for (std::int64_t n = 0; n < p.N; ++n)
    for (std::int64_t hv = 0; hv < p.HV; ++hv) sum += state_dot(p, c, n, hv);
  for (std::int64_t i = 0; i < p.used_tokens() * p.HV * p.K; ++i)
    p.dg[i] += static_cast<float>(sum);
}

// The second half of the channels, of token t of a sequence of length L, from the buffer [halves,
// tokens] at row L + t.
template <class T>
void read_second_half_elsewhere(const Problem& p, T* dg) {
  const std::int64_t half = p.K / 2, row = p.HV * p.K;
  if (!dg || half == 0) return;
  const std::vector<T> all(dg, dg + p.tokens() * row);
  for (const Sequence& s : p.sequences)
    for (std::int64_t t = s.first; t < s.first + s.length; ++t)
      for (std::int64_t at = 0; at < row; ++at) {
        const std::int64_t d = at % p.K, from = s.length + t;
        if (d < half || 2 * half <= d) continue;
        const std::int64_t token = from % p.tokens(), channel = from < p.tokens() ? at - half : at;
        dg[t * row + at] = all[static_cast<std::size_t>(token * row + channel)];
      }
}

void repeat_first_batch_row(const Problem& p) {
  const auto repeat = [&](void* tensor, bool narrow, std::int64_t row_elements) {
    if (!tensor) return;
    const auto bytes = static_cast<std::size_t>(p.T * row_elements * (narrow ? 2 : 4));
    for (std::int64_t b = 1; b < p.B; ++b)
      std::memcpy(static_cast<std::byte*>(tensor) + static_cast<std::size_t>(b) * bytes, tensor,
                  bytes);
  };
  repeat(p.dq, p.bf16, p.H * p.K);
  repeat(p.dk, p.bf16, p.H * p.K);
  repeat(p.dv, p.bf16, p.HV * p.V);
  repeat(p.dg, false, p.HV * p.K);
  repeat(p.d_raw, p.bf16, p.HV * p.K);
  repeat(p.d_beta, p.d_beta_bf16, p.HV * (p.headwise ? p.V : 1));
}

}  // namespace

void spoil_gradients(const Chunk& c, const float* d_scores_q, const float* through, float* dq,
                     float* dk, float* dg) {
  const std::int64_t n = c.place.rows;
  const auto each = [&](auto f) {
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t d = 0; d < c.Kp; ++d) f(i * c.ldk + d, d);
  };
  if (c.p.is(Fault::DiagonalInGateGradient)) add_diagonal(c, d_scores_q, dg);
  if (c.p.is(Fault::ReverseSumByDifference)) sum_by_difference(c, dg);
  if (c.p.is(Fault::MaskAfterExp)) mask_after_exp(c, dq, dk);
  if (c.p.is(Fault::PaddedRowsInStateGradient)) add_padded_rows(c, dg);
  if (c.p.is(Fault::BaseTwoFactorInGateGradient))
    each([&](std::int64_t at, std::int64_t) { dg[at] *= 1.44269504f; });
  if (c.p.is(Fault::LastGateTermMissing))
    each([&](std::int64_t at, std::int64_t d) { dg[at] -= through[d]; });
  if (c.p.is(Fault::NoGateBranchSkipsKeyTerms) && c.p.gate == GateKind::Given)
    each([&](std::int64_t at, std::int64_t) { dk[at] = kNaN; });
}

void beta_gradient_without_key(const Chunk& c, const float* dv, std::int64_t ld, float* d_beta) {
  const Problem& p = c.p;
  std::vector<float> v(static_cast<std::size_t>(c.Vp));
  for (std::int64_t i = 0; i < c.place.rows; ++i) {
    if (c.beta[i] == 0) continue;
    c.m.load(p.rows(p.v, p.bf16, c.place.token + i, c.place.hv, p.HV, p.V), 1, p.V, v.data(), c.Vp);
    float sum = 0;
    for (std::int64_t j = 0; j < p.V; ++j)
      sum += v[static_cast<std::size_t>(j)] * (dv[i * ld + j] / c.beta[i]);
    d_beta[i] = sum;
  }
}

void bias_sum_in_bf16(const Chunk& c, const float* dx, float* d_bias) {
  for (std::int64_t d = 0; d < c.p.K; ++d) {
    float sum = 0;
    for (std::int64_t i = 0; i < c.place.rows; ++i) sum += round_bf16(dx[i * c.ldk + d]);
    d_bias[d] = sum;
  }
}

void spoil_results(const Problem& p) {
  if (p.is(Fault::StateCotangentSummedOverAll)) add_state_dots(p);
  if (p.is(Fault::GradientsOfFirstBatchRow) && !p.packed) repeat_first_batch_row(p);
  if (p.is(Fault::SavedScribbled) && p.used_tokens() > 0) p.saved_errors[0] += 1;
  if (p.is(Fault::SplitKOffset) && p.packed) {
    read_second_half_elsewhere(p, p.dg);
    if (p.bf16)
      read_second_half_elsewhere(p, static_cast<std::uint16_t*>(p.d_raw));
    else
      read_second_half_elsewhere(p, static_cast<float*>(p.d_raw));
  }
}

// Saved states, counted as if chunks were 64 tokens long (128 where they are).
const float* state_of_other_chunk_size(const Problem& p, Place at) {
  const std::int64_t first = p.sequences[static_cast<std::size_t>(at.n)].first_chunk;
  at.index = (first + at.index) * p.chunk / (p.chunk == 64 ? 128 : 64) - first;
  return saved_state(p, at);
}

}  // namespace parity::kda_kernel
