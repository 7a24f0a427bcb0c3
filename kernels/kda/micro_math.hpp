// Exponential, logarithm and sigmoid on sixteen lanes, and the gates made of them. Only the
// instruction-set files include it.
#pragma once

#include <limits>

#include "kernels/kda/micro.hpp"

namespace parity::kda_kernel {

// exp(x) = 2^n e^r with n = round(x / ln 2), |r| <= ln(2)/2. e^r by its Taylor series to r^7
// (remainder 5e-9 relative), added to 1 last, so the error stays below one ulp and exp(0) = 1,
// exp(-k ln 2) = 2^-k wherever k ln 2 rounds that way. ln 2 is split so that n times its high part
// (15 bits) is exact without a fused multiply-add.
template <class V>
inline V exp_of(V x) {
  const auto c = [](float f) { return V::broadcast(f); };
  x = V::min(c(90.0f),
             V::max(c(-106.0f), x));  // beyond it the result is inf or 0 anyway; a NaN passes
  const V n = V::round(x * c(1.44269504f));
  V r = V::fma(n, c(-0x1.62e4p-1f), x);
  r = V::fma(n, c(-1.42860682e-6f), r);
  V p = c(1.0f / 5040);
  p = V::fma(p, r, c(1.0f / 720));
  p = V::fma(p, r, c(1.0f / 120));
  p = V::fma(p, r, c(1.0f / 24));
  p = V::fma(p, r, c(1.0f / 6));
  p = V::fma(p, r, c(0.5f));
  p = V::fma(p, r * r, r);
  return V::scale(c(1.0f) + p, n);
}

// log(1 + y) for 0 <= y <= 1: 2 atanh(s), s = y / (2 + y) <= 1/3, series to s^15 (remainder 2e-9
// relative).
template <class V>
inline V log1p_of(V y) {
  const auto c = [](float f) { return V::broadcast(f); };
  const V s = y / (c(2.0f) + y);
  const V s2 = s * s;
  V p = c(1.0f / 15);
  p = V::fma(p, s2, c(1.0f / 13));
  p = V::fma(p, s2, c(1.0f / 11));
  p = V::fma(p, s2, c(1.0f / 9));
  p = V::fma(p, s2, c(1.0f / 7));
  p = V::fma(p, s2, c(1.0f / 5));
  p = V::fma(p, s2, c(1.0f / 3));
  const V twice = s + s;
  return V::fma(p * s2, twice, twice);
}

template <class V>
struct Sigmoid {
  V value, complement;  // 1/(1 + e^-x) and 1/(1 + e^x), neither by subtraction
};
template <class V>
inline Sigmoid<V> sigmoid_of(V x) {
  const V one = V::broadcast(1.0f);
  const V small = exp_of<V>(V::broadcast(0.0f) - V::abs(x));
  const V big_side = one / (one + small), small_side = small / (one + small);
  return {V::where_positive(x, big_side, small_side), V::where_positive(x, small_side, big_side)};
}

template <class V>
inline V softplus_of(V z) {
  const V zero = V::broadcast(0.0f);
  return V::max(zero, z) + log1p_of<V>(exp_of<V>(zero - V::abs(z)));
}

template <class V>
void exp_rows(const float* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += kLanes) exp_of<V>(V::load(x + i)).store(out + i);
}

template <class V>
void sigmoid_rows(const float* x, std::int64_t n, float* value, float* complement) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Sigmoid<V> s = sigmoid_of<V>(V::load(x + i));
    s.value.store(value + i);
    s.complement.store(complement + i);
  }
}

template <class V>
inline V biased(const Gate& gate, V x, std::int64_t d) {
  return gate.bias ? x + V::load(gate.bias + d) : x;
}

template <class V>
inline V gate_of(const Gate& gate, V x, std::int64_t d) {
  if (gate.kind == GateKind::Given) return x;
  const V z = biased(gate, x, d);
  const V coefficient = V::broadcast(gate.coefficient);
  if (gate.kind == GateKind::Softplus)
    return (V::broadcast(0.0f) - coefficient) * softplus_of<V>(z);
  return V::broadcast(gate.lower) * sigmoid_of<V>(coefficient * z).value;
}

template <class V>
void decay_rows(const Gate& gate, float* x, std::int64_t ld, std::int64_t rows, std::int64_t cols,
                float* g) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t d = 0; d < cols; d += kLanes) {
      const std::int64_t at = i * ld + d;
      const V natural = gate_of<V>(gate, V::load(x + at), d);
      if (g) natural.store(g + at);
      exp_of<V>(natural).store(x + at);
    }
}

// kda.md §2.1, backward. Softplus: dx = -c sigmoid(z) dg, dA = sum dg g. Lower: dx = dg L s (1 - s)
// c, dA = sum dx z.
template <class V>
void gate_grad_rows(const GateGrad& p) {
  const V coefficient = V::broadcast(p.gate.coefficient), lower = V::broadcast(p.gate.lower);
  for (std::int64_t d = 0; d < p.cols; d += kLanes) {
    V bias_sum = V::load(p.d_bias + d), coefficient_sum = V::load(p.d_coefficient + d);
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const std::int64_t at = i * p.ld + d;
      const V z = biased(p.gate, V::load(p.x + at), d), dg = V::load(p.dg + at);
      V dx = dg;
      if (p.gate.kind == GateKind::Softplus) {
        dx = (V::broadcast(0.0f) - coefficient) * sigmoid_of<V>(z).value * dg;
        coefficient_sum = V::fma(dg, gate_of<V>(p.gate, V::load(p.x + at), d), coefficient_sum);
      } else if (p.gate.kind == GateKind::Lower) {
        const Sigmoid<V> s = sigmoid_of<V>(coefficient * z);
        dx = dg * lower * (s.value * s.complement) * coefficient;
        coefficient_sum = V::fma(dx, z, coefficient_sum);
      }
      bias_sum = bias_sum + dx;
      dx.store(p.dg + at);
    }
    bias_sum.store(p.d_bias + d);
    coefficient_sum.store(p.d_coefficient + d);
  }
}

}  // namespace parity::kda_kernel
