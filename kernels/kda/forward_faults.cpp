#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/kda/fault_paths.hpp"

namespace parity::kda_kernel {

float round_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return x;
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}
float truncate_bf16(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffff0000u);
}

namespace {
template <class F>
void each_element(float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols, F f) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) x[i * ld + j] = f(x[i * ld + j]);
}
}  // namespace

void round_rows_to_bf16(float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols) {
  each_element(x, ld, rows, cols, round_bf16);
}
void truncate_rows_to_bf16(float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols) {
  each_element(x, ld, rows, cols, truncate_bf16);
}

std::int64_t spoil_tail_rows(const Chunk& c, float* u, std::int64_t ldu) {
  const std::int64_t n = c.place.rows, padded = pad(n);
  const bool unmasked = c.p.is(Fault::TailRowsUnmasked),
             past_end = c.p.is(Fault::SubstitutionPastEnd);
  if (!unmasked && !past_end) return n;
  // A padded row's gate reads 0, so its distance to row j is exp(0 - G_j), and its key 0 does not
  // help once that is inf.
  float largest = 0;
  for (std::int64_t d = 0; d < c.p.K; ++d) {
    float G = 0;
    for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, -(G += c.g[j * c.ldk + d]));
  }
  const float left = past_end ? std::numeric_limits<float>::quiet_NaN() : 0 * std::exp(largest);
  for (std::int64_t i = n; i < padded; ++i) std::fill_n(u + i * ldu, c.Vp, left);
  return padded;
}

const float* spoil_state_decay(Chunk& c, float* row) {
  const std::int64_t n = c.place.rows;
  if (c.p.is(Fault::FinalDecayFromLastRow) && n < c.C) {
    std::fill_n(row, c.Kp, 1.0f);
    for (std::int64_t at = 0; at < n * c.ldk; at += c.ldk)
      for (std::int64_t d = 0; d < c.Kp; ++d) c.S[at + d] = 1 / c.P[at + d];
    return row;
  }
  if (c.p.is(Fault::DecayOneRowEarly) && n > 1) {
    c.m.decay_products({.a = c.a,
                        .out = c.S,
                        .ld = c.ldk,
                        .cols = c.Kp,
                        .first = 0,
                        .middle = n - 1,
                        .last = n - 1});
    return c.P + (n - 2) * c.ldk;
  }
  return c.decay_of_chunk();
}

void solve_by_column_beta(const Chunk& c, float* e, float* u, std::int64_t ld) {
  const auto beta = [&](std::int64_t i, std::int64_t v) {
    return c.p.headwise ? c.beta[i * ld + v] : c.beta[i];
  };
  for (std::int64_t i = 0; i < c.place.rows; ++i)
    for (std::int64_t v = 0; v < c.Vp; ++v) {
      float sum = beta(i, v) * e[i * ld + v];
      for (std::int64_t j = 0; j < i; ++j) {
        sum += beta(j, v) * c.scores_k[i * c.ldc + j] * u[j * ld + v];
        e[i * ld + v] += c.scores_k[i * c.ldc + j] * u[j * ld + v];
      }
      u[i * ld + v] = sum;
    }
}

void round_merge_operands(Chunk& c, std::int64_t first, std::int64_t middle, std::int64_t last) {
  round_rows_to_bf16(c.scores_k + middle * c.ldc + first, c.ldc, last - middle, middle - first);
}

Stored narrow_rows(const Problem& p, const void* data, std::int64_t token, std::int64_t hv) {
  Stored rows = p.rows(data, p.bf16, token, hv, p.HV, p.V);
  const std::int64_t offset = (token * p.HV + hv) * p.V, wrapped = offset & 0x3ff;
  rows.data = static_cast<const std::byte*>(data) + wrapped * (p.bf16 ? 2 : 4);
  return rows;
}

}  // namespace parity::kda_kernel
