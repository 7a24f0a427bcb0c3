// What prepare and gradients load of keys and gates: a thread's channels of the 16 tokens of a
// sub-chunk.
#pragma once

#include "kernels/kda/hopper/job.cuh"

namespace parity::kda_kernel::hopper {

constexpr int kSub = 16;
constexpr int kRow = kChannels + 8;  // bf16 in a row of an operand: rows apart by 4 banks

__device__ inline float power(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal(float x) {
  float y = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 2^x within an ulp: what a chunk does to the state in f32.
__device__ inline float exact_power(float x) {
  x = x < -152.0F ? -152.0F : x > 130.0F ? 130.0F : x;
  const float n = rintf(x), r = (x - n) * 0.693147181F;
  float p = 1.0F / 5040;
  for (const float c : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F}) p = fmaf(p, r, c);
  return ldexpf(1.0F + fmaf(p, r * r, r), static_cast<int>(n));
}

// Sums of 32 values over the lanes of a warp: lane l has that of value l.
template <int kApart = 16>
__device__ float sums_by_lane(float (&v)[32]) {
  const bool upper = (threadIdx.x & kApart) != 0;
#pragma unroll
  for (int j = 0; j < kApart; ++j) {
    const float other = __shfl_xor_sync(0xFFFFFFFFU, upper ? v[j] : v[j + kApart], kApart);
    v[j] = (upper ? v[j + kApart] : v[j]) + other;
  }
  if constexpr (kApart > 1) return sums_by_lane<kApart / 2>(v);
  return v[0];
}

// What a thread knows of its two channels and 16 tokens.
struct Own {
  int sub, channel;                // I, first of the two channels
  int rows;                        // of the 16, before the sequence's end
  std::uint32_t q[kSub], k[kSub];  // as stored, then in bf16 pairs
  float c[2][kSub];                // log2 of the decay from the sub-chunk's start
  float of_q[kSub], of_k[kSub];    // norms' factors
};

template <bool kWide>
__device__ std::uint32_t two_narrow(const std::uint16_t* at, int channel, int K) {
  if (kWide) return *reinterpret_cast<const std::uint32_t*>(at);
  std::uint32_t two = channel < K ? at[0] : 0U;
  if (channel + 1 < K) two |= static_cast<std::uint32_t>(at[1]) << 16;
  return two;
}

// Rows of one tensor, zero behind the end.
template <bool kWide>
__device__ void load_rows(const std::uint16_t* tensor, std::int64_t row, int heads, int head,
                          const Job& p, const Own& own, std::uint32_t (&to)[kSub]) {
  const int stride = heads * p.K;
  const std::uint16_t* at = tensor + row * stride + head * p.K + own.channel;
  if (own.rows >= kSub) {
#pragma unroll
    for (int i = 0; i < kSub; ++i)
      to[i] = two_narrow<kWide>(at + std::int64_t{i} * stride, own.channel, p.K);
  } else {
#pragma unroll
    for (int i = 0; i < kSub; ++i)
      to[i] =
          i < own.rows ? two_narrow<kWide>(at + std::int64_t{i} * stride, own.channel, p.K) : 0U;
  }
}

// Apart, so that its sixteen calls do not fill the instruction cache.
__device__ __noinline__ float precise_gate(GateKind kind, float lower, float coefficient, float z) {
  return gate_of(kind, lower, coefficient, z);
}

// Prefix sums of the gates within the sub-chunk, in log2 units.
struct Gates {
  float coefficient, bias[2];
  std::int64_t row, stride;  // elements
  __device__ Gates(const Job& p, const Rows& rows, int hv, const Own& own) {
    const int owner = p.defect == Defect::HeadOfGroup ? hv / (p.HV / p.H) : hv;
    coefficient = p.A_log ? exp_of(p.A_log[owner]) : 1.0F;
    for (int e = 0; e < 2; ++e)
      bias[e] = p.bias && own.channel + e < p.K ? p.bias[owner * p.K + own.channel + e] : 0.0F;
    stride = std::int64_t{p.HV} * p.K;
    row = (rows.first + own.sub * kSub) * stride + std::int64_t{hv} * p.K + own.channel;
  }
};

constexpr float kLog2e = 1.44269504F;

// Of a lower bound, where nobody reads the gates: two approximate instructions each.
__device__ inline void sum_lower_gates(const Job& p, const Gates& gates,
                                       const std::uint32_t (&raw)[kSub], Own& own) {
  const float by = -kLog2e * gates.coefficient, lower = p.lower * kLog2e;
  float sum[2] = {};
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    const float x[2] = {device::low_bf16(raw[i]), device::high_bf16(raw[i])};
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float s = reciprocal(1 + power(fmaf(x[e], by, by * gates.bias[e])));
      own.c[e][i] = sum[e] = fmaf(s, i < own.rows ? lower : 0.0F, sum[e]);
    }
  }
}

template <bool kWide>
__device__ void sum_any_gates(const Job& p, const Gates& gates, const std::uint32_t (&raw)[kSub],
                              Own& own) {
  const bool given = p.gate == GateKind::Given;
  float sum[2] = {};
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    const std::int64_t at = gates.row + i * gates.stride;
    const float x[2] = {device::low_bf16(raw[i]), device::high_bf16(raw[i])};
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      own.c[e][i] = sum[e];
      if (i >= own.rows || (!kWide && own.channel + e >= p.K)) continue;
      const float g = given
                          ? static_cast<const float*>(p.gate_in)[at + e]
                          : precise_gate(p.gate, p.lower, gates.coefficient, x[e] + gates.bias[e]);
      if (p.g_tap) p.g_tap[at + e] = g;
      own.c[e][i] = sum[e] = fmaf(g, kLog2e, sum[e]);
    }
  }
}

// kAnchored: a lower bound, nobody reads the gates.
template <bool kWide, bool kAnchored>
__device__ void load(const Job& p, const Rows& rows, int hv, Own& own) {
  const int head = hv / (p.HV / p.H);
  const std::int64_t row = rows.first + own.sub * kSub;
  std::uint32_t raw[kSub] = {};
  load_rows<kWide>(p.q, row, p.H, head, p, own, own.q);
  load_rows<kWide>(p.k, row, p.H, head, p, own, own.k);
  if (kAnchored || p.gate != GateKind::Given)
    load_rows<kWide>(static_cast<const std::uint16_t*>(p.gate_in), row, p.HV, hv, p, own, raw);
  const Gates gates(p, rows, hv, own);
  if (kAnchored)
    sum_lower_gates(p, gates, raw, own);
  else
    sum_any_gates<kWide>(p, gates, raw, own);
}

}  // namespace parity::kda_kernel::hopper
