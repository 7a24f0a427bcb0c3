// Matrix products on small tiles held in registers. Only the instruction-set files include it.
//
// Each element of the result is one chain of fused multiply-adds over ascending k, whatever the
// tile that computes it, so its bits depend neither on the neighbouring rows nor on the instruction
// set.
#pragma once

#include "kernels/kda/micro.hpp"

namespace parity::kda_kernel {

// How A is read: along its rows (a_col = 1), down its columns (a_row = 1), or two products term by
// term, down their columns.
enum class Read { Rows, Columns, Pair };

// Rows [i, i + R), columns [j, j + 16 C).
template <class V, unsigned R, unsigned C, Read kRead>
inline void product_tile(const Product& p, std::int64_t i, std::int64_t j) {
  const std::int64_t k0 = p.band == Band::Upper ? (i < p.k ? i : p.k) : 0;
  const std::int64_t k1 = p.band == Band::Lower && i + R < p.k ? i + R : p.k;
  const std::int64_t a_row = kRead == Read::Rows ? p.a_row : 1,
                     a_col = kRead == Read::Rows ? 1 : p.a_col;
  float* out = p.out + i * p.ldo + j;
  V acc[R][C];
#pragma GCC unroll 8
  for (unsigned r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (unsigned c = 0; c < C; ++c)
      acc[r][c] = p.onto == Onto::Keep ? V::load(out + r * p.ldo + c * kLanes) : V::broadcast(0.0f);
  }
  const std::int64_t a_first = i * a_row + k0 * a_col, b_first = k0 * p.ldb + j;
  const float *a = p.a + a_first, *b = p.b + b_first;
  const float* a2 = kRead == Read::Pair ? p.a2 + a_first : nullptr;
  const float* b2 = kRead == Read::Pair ? p.b2 + b_first : nullptr;
  const auto add = [&](const float* left, const float* right) {
    V y[C];
#pragma GCC unroll 4
    for (unsigned c = 0; c < C; ++c) y[c] = V::load(right + c * kLanes);
#pragma GCC unroll 8
    for (unsigned r = 0; r < R; ++r) {
      const V x = V::broadcast(left[r * a_row]);
#pragma GCC unroll 4
      for (unsigned c = 0; c < C; ++c) acc[r][c] = V::fma(x, y[c], acc[r][c]);
    }
  };
  for (std::int64_t k = k0; k < k1; ++k, a += a_col, b += p.ldb) {
    add(a, b);
    if constexpr (kRead == Read::Pair) add(a2, b2), a2 += a_col, b2 += p.ldb;
  }
#pragma GCC unroll 8
  for (unsigned r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (unsigned c = 0; c < C; ++c) {
      float* to = out + r * p.ldo + c * kLanes;
      if (p.onto == Onto::Add) acc[r][c] = V::load(to) + acc[r][c];
      if (p.onto == Onto::ScaleRows)
        acc[r][c] = V::fma(V::broadcast(p.row_scale[i + r]), V::load(to), acc[r][c]);
      acc[r][c].store(to);
    }
  }
}

// The next few cache lines of what is needed later: about one for every hundred multiply-adds of a
// tile.
inline void fetch(Ahead& a) {
  for (int line = 0; line < 16 && a.part < a.count; ++line) {
    const Ahead::Part& part = a.parts[a.part];
    __builtin_prefetch(part.at + a.row * part.stride + a.byte, 0, 2);
    a.byte += 64;
    if (a.byte < part.bytes) continue;
    a.byte = 0;
    if (++a.row < part.rows) continue;
    a.row = 0;
    ++a.part;
  }
}

// One panel of columns, so that its part of B stays in the L1 cache while the rows of A pass.
template <class V, unsigned C, Read kRead>
inline void product_panel(const Product& p, std::int64_t j) {
  std::int64_t i = 0;
  for (; i + V::kRows <= p.m; i += V::kRows) {
    product_tile<V, V::kRows, C, kRead>(p, i, j);
    if (p.ahead) fetch(*p.ahead);
  }
  for (; i + 4 <= p.m; i += 4) product_tile<V, 4, C, kRead>(p, i, j);
  for (; i + 2 <= p.m; i += 2) product_tile<V, 2, C, kRead>(p, i, j);
  for (; i < p.m; ++i) product_tile<V, 1, C, kRead>(p, i, j);
}

template <class V, Read kRead>
inline void product_panels(const Product& p) {
  std::int64_t j = 0;
  for (; j + V::kCols * kLanes <= p.n; j += V::kCols * kLanes)
    product_panel<V, V::kCols, kRead>(p, j);
  for (; j < p.n; j += kLanes) product_panel<V, 1, kRead>(p, j);
}

template <class V>
void product(const Product& p) {
  if (p.a2)
    product_panels<V, Read::Pair>(p);
  else if (p.a_col == 1)
    product_panels<V, Read::Rows>(p);
  else
    product_panels<V, Read::Columns>(p);
}

template <class V>
void transpose(const float* in, std::int64_t ldi, std::int64_t rows, std::int64_t cols, float* out,
               std::int64_t ldo) {
  for (std::int64_t r = 0; r < rows; r += kLanes)
    for (std::int64_t c = 0; c < cols; c += kLanes) {
      V block[16];
      for (int i = 0; i < 16; ++i)
        block[i] = r + i < rows ? V::load(in + (r + i) * ldi + c) : V::broadcast(0.0f);
      V::transpose(block);
      for (int i = 0; i < 16; ++i) block[i].store(out + (c + i) * ldo + r);
    }
}

}  // namespace parity::kda_kernel
