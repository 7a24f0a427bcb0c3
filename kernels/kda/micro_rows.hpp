// Loads, stores and elementwise passes over rows. Only the instruction-set files include it.
#pragma once

#include "kernels/kda/micro.hpp"

namespace parity::kda_kernel {

template <class V>
void load_rows(const Stored& in, std::int64_t rows, std::int64_t cols, float* out,
               std::int64_t ldo) {
  const std::int64_t whole = cols / kLanes * kLanes;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* to = out + i * ldo;
    if (in.bf16) {
      const auto* from = static_cast<const std::uint16_t*>(in.data) + i * in.stride;
      for (std::int64_t c = 0; c < whole; c += kLanes) V::load_bf16(from + c).store(to + c);
      if (whole == cols) continue;
      std::uint16_t tail[kLanes] = {};
      for (std::int64_t c = whole; c < cols; ++c) tail[c - whole] = from[c];
      V::load_bf16(tail).store(to + whole);
    } else {
      const auto* from = static_cast<const float*>(in.data) + i * in.stride;
      for (std::int64_t c = 0; c < whole; c += kLanes) V::load(from + c).store(to + c);
      if (whole == cols) continue;
      float tail[kLanes] = {};
      for (std::int64_t c = whole; c < cols; ++c) tail[c - whole] = from[c];
      V::load(tail).store(to + whole);
    }
  }
}

// Whole cache lines go past the caches: results are not read again soon.
template <class V>
void stream_rows(const float* in, std::int64_t ldi, std::int64_t rows, std::int64_t cols,
                 float* out, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t c = 0; c < cols; c += kLanes)
      V::load(in + i * ldi + c).stream(out + i * stride + c);
  V::fence();
}

template <class V>
void store_rows(const float* in, std::int64_t ldi, std::int64_t rows, std::int64_t cols,
                const Stored& out) {
  const std::int64_t whole = cols / kLanes * kLanes;
  const bool lines = reinterpret_cast<std::uintptr_t>(out.data) % 64 == 0 &&
                     out.stride % kLanes == 0 && whole == cols;
  if (lines && !out.bf16)
    return stream_rows<V>(in, ldi, rows, cols, static_cast<float*>(const_cast<void*>(out.data)),
                          out.stride);
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* from = in + i * ldi;
    if (out.bf16) {
      auto* to = static_cast<std::uint16_t*>(const_cast<void*>(out.data)) + i * out.stride;
      for (std::int64_t c = 0; c < whole; c += kLanes) V::load(from + c).store_bf16(to + c);
      if (whole == cols) continue;
      std::uint16_t tail[kLanes];
      V::load(from + whole).store_bf16(tail);
      for (std::int64_t c = whole; c < cols; ++c) to[c] = tail[c - whole];
    } else {
      auto* to = static_cast<float*>(const_cast<void*>(out.data)) + i * out.stride;
      for (std::int64_t c = 0; c < whole; c += kLanes) V::load(from + c).store(to + c);
      for (std::int64_t c = whole; c < cols; ++c) to[c] = from[c];
    }
  }
}

template <class V>
void multiply_rows(const float* x, const float* y, float sign, std::int64_t ld, std::int64_t rows,
                   std::int64_t cols, float* out) {
  const V s = V::broadcast(sign);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t at = i * ld; at < i * ld + cols; at += kLanes)
      (s * (V::load(x + at) * V::load(y + at))).store(out + at);
}

template <class V>
void scale_rows(float* x, float factor, std::int64_t ld, std::int64_t rows, std::int64_t cols) {
  const V f = V::broadcast(factor);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t at = i * ld; at < i * ld + cols; at += kLanes)
      (f * V::load(x + at)).store(x + at);
}

template <class V>
void add_to(const float* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += kLanes) (V::load(out + i) + V::load(x + i)).store(out + i);
}

template <class V>
inline float lane_sum(V x) {
  V rows[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = x;
  float sums[kLanes];
  V::sums(rows).store(sums);
  return sums[0];
}

template <class V>
void normalise_rows(float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols, float eps,
                    float* rstd) {
  for (std::int64_t i = 0; i < rows; ++i) {
    float* row = x + i * ld;
    V sum = V::broadcast(0.0f);
    for (std::int64_t d = 0; d < cols; d += kLanes)
      sum = V::fma(V::load(row + d), V::load(row + d), sum);
    rstd[i] = 1.0f / __builtin_sqrtf(lane_sum(sum) + eps);
    const V factor = V::broadcast(rstd[i]);
    for (std::int64_t d = 0; d < cols; d += kLanes) (V::load(row + d) * factor).store(row + d);
  }
}

template <class V>
void normalise_grad_rows(const float* x, const float* rstd, std::int64_t ld, std::int64_t rows,
                         std::int64_t cols, float* dy) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* x_row = x + i * ld;
    float* dy_row = dy + i * ld;
    const V factor = V::broadcast(rstd[i]);
    V sum = V::broadcast(0.0f);
    for (std::int64_t d = 0; d < cols; d += kLanes)
      sum = V::fma(V::load(x_row + d) * factor, V::load(dy_row + d), sum);
    const V along = V::broadcast(lane_sum(sum));
    for (std::int64_t d = 0; d < cols; d += kLanes) {
      const V y = V::load(x_row + d) * factor;
      (factor * (V::load(dy_row + d) - y * along)).store(dy_row + d);
    }
  }
}

template <class V>
void decay_product_rows(const Decay& p) {
  for (std::int64_t d = 0; d < p.cols; d += kLanes) {
    V run = V::broadcast(1.0f);
    for (std::int64_t i = p.middle; i < p.last; ++i) {
      run = run * V::load(p.a + i * p.ld + d);
      run.store(p.out + i * p.ld + d);
    }
    run = V::broadcast(1.0f);
    for (std::int64_t j = p.middle - 1; j >= p.first; --j) {
      run.store(p.out + j * p.ld + d);
      run = run * V::load(p.a + j * p.ld + d);
    }
  }
}

template <class V>
void tile_grad_rows(const TileGrad& p) {
  const auto at = [&](const float* x, std::int64_t row, std::int64_t d) {
    return V::load(x + row * p.ld + d);
  };
  for (std::int64_t d = 0; d < p.cols; d += kLanes) {
    V run = V::broadcast(0.0f);
    for (std::int64_t m = p.last - 1; m >= p.middle; --m) {
      const std::int64_t to = m * p.ld + d;
      const V D = at(p.D, m, d), xq = at(p.xq, m - p.middle, d), xk = at(p.xk, m - p.middle, d);
      V::fma(D, xq, V::load(p.dq + to)).store(p.dq + to);
      V::fma(D, xk, V::load(p.dk + to)).store(p.dk + to);
      run = run + V::fma(at(p.qs, m, d), xq, at(p.ks, m, d) * xk);
      (V::load(p.dg + to) + run).store(p.dg + to);
    }
    run = V::broadcast(0.0f);
    for (std::int64_t j = p.first; j < p.middle; ++j) {
      const std::int64_t to = j * p.ld + d;
      const V y = at(p.y, j - p.first, d);
      V::fma(at(p.D, j, d), y, V::load(p.dk + to)).store(p.dk + to);
      (V::load(p.dg + to) + run).store(p.dg + to);
      run = run + at(p.ks, j, d) * y;
    }
  }
}

template <class V>
void chunk_grad_rows(const ChunkGrad& p) {
  const auto at = [&](const float* x, std::int64_t row, std::int64_t d) {
    return V::load(x + row * p.ld + d);
  };
  for (std::int64_t d = 0; d < p.cols; d += kLanes) {
    V run = V::load(p.through + d);
    for (std::int64_t j = 0; j < p.rows; ++j) {
      const std::int64_t to = j * p.ld + d;
      const V P = at(p.P, j, d), z = at(p.z, j, d);
      (P * at(p.x, j, d)).store(p.dq + to);
      V::fma(P, at(p.y, j, d), at(p.S, j, d) * z).store(p.dk + to);
      run.store(p.dg + to);
      run = V::fma(at(p.kg, j, d), z, run);
    }
    run = V::broadcast(0.0f);
    for (std::int64_t m = p.rows - 1; m >= 0; --m) {
      const std::int64_t to = m * p.ld + d;
      run = run + V::fma(at(p.qg, m, d), at(p.x, m, d), at(p.kt, m, d) * at(p.y, m, d));
      (V::load(p.dg + to) + run).store(p.dg + to);
    }
  }
}

template <class V>
void column_dot_rows(const float* x, const float* y, std::int64_t ld, std::int64_t rows,
                     std::int64_t cols, const float* factor, float* out) {
  for (std::int64_t d = 0; d < cols; d += kLanes) {
    V sum = V::broadcast(0.0f);
    for (std::int64_t r = 0; r < rows; ++r)
      sum = V::fma(V::load(x + r * ld + d), V::load(y + r * ld + d), sum);
    (V::load(factor + d) * sum).store(out + d);
  }
}

// kda.md §1: decay, predict, write, read; columns are independent, so a strip of them takes both
// passes while it is in cache.
template <class V, unsigned S>
inline void token_strip(const Token& p, std::int64_t c) {
  V r[S], o[S], u[S];
#pragma GCC unroll 4
  for (unsigned s = 0; s < S; ++s) r[s] = o[s] = V::broadcast(0.0f);
  for (std::int64_t d = 0; d < p.K; ++d) {
    const V a = V::broadcast(p.a[d]), k = V::broadcast(p.k[d]);
    float* row = p.state + d * p.ld + c;
#pragma GCC unroll 4
    for (unsigned s = 0; s < S; ++s) {
      const V decayed = a * V::load(row + s * kLanes);
      decayed.store(row + s * kLanes);
      r[s] = V::fma(k, decayed, r[s]);
    }
  }
#pragma GCC unroll 4
  for (unsigned s = 0; s < S; ++s) {
    const std::int64_t at = c + s * kLanes;
    const V beta = p.headwise ? V::load(p.beta + at) : V::broadcast(p.beta[0]);
    u[s] = beta * (V::load(p.v + at) - r[s]);
  }
  for (std::int64_t d = 0; d < p.K; ++d) {
    const V k = V::broadcast(p.k[d]), q = V::broadcast(p.q[d]);
    float* row = p.state + d * p.ld + c;
#pragma GCC unroll 4
    for (unsigned s = 0; s < S; ++s) {
      const V written = V::fma(k, u[s], V::load(row + s * kLanes));
      written.store(row + s * kLanes);
      o[s] = V::fma(q, written, o[s]);
    }
  }
#pragma GCC unroll 4
  for (unsigned s = 0; s < S; ++s) o[s].store(p.o + c + s * kLanes);
}

template <class V>
void token_rows(const Token& p) {
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= p.cols; c += 4 * kLanes) token_strip<V, 4>(p, c);
  for (; c < p.cols; c += kLanes) token_strip<V, 1>(p, c);
}

}  // namespace parity::kda_kernel
