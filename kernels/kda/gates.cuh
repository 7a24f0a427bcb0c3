// Gates, beta and decays on a device, in f32.
#pragma once

#include "kernels/kda/micro.hpp"

namespace parity::kda_kernel {

// exp(x) = 2^n e^r with n = round(x / ln 2), as on the CPU (kernels/kda/micro_math.hpp): within an
// ulp, and without the one-sided error that expf has near 1 (weak gates multiply hundreds of such
// decays: a gain of 5e-7 of the state, which the bias view refuses).
__device__ inline float exp_of(float x) {
  x = x < -106.0F ? -106.0F : x > 90.0F ? 90.0F : x;  // inf or 0 beyond it anyway; a NaN stays
  const float n = rintf(x * 1.44269504F);
  const float r = fmaf(n, -1.42860682e-6F, fmaf(n, -0x1.62e4p-1F, x));
  float p = 1.0F / 5040;
  for (const float c : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F}) p = fmaf(p, r, c);
  return ldexpf(1.0F + fmaf(p, r * r, r), static_cast<int>(n));
}

// Without overflow: exp of what is not positive.
__device__ inline float sigmoid(float x) {
  const float e = exp_of(-fabsf(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
__device__ inline float softplus(float x) { return fmaxf(x, 0.0F) + log1pf(exp_of(-fabsf(x))); }

// The gate of a raw one: z = x + bias, coefficient = exp(A_log) or 1.
__device__ inline float gate_of(GateKind kind, float lower, float coefficient, float z) {
  if (kind == GateKind::Given) return z;
  if (kind == GateKind::Softplus) return -coefficient * softplus(z);
  return lower * sigmoid(coefficient * z);
}

}  // namespace parity::kda_kernel
