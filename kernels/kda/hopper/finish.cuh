// The end of the backward: gates, beta and norms, and the sums over chunks and over the value heads
// of a query head.
#pragma once

#include "kernels/kda/hopper/gradients.cuh"

namespace parity::kda_kernel::hopper {

__device__ inline float warp_sum(float x) {
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xFFFFFFFFU, x, apart);
  return x;
}

__device__ inline std::uint16_t narrowed(float x) {
  return static_cast<std::uint16_t>(device::pack_bf16(x, 0));
}

// What a raw gate and the sum for A_log have from dg; apart, because its sixteen copies would not
// fit into the instruction cache.
__device__ __noinline__ float2 raw_gradient(GateKind kind, float lower, float coefficient, float z,
                                            float dg) {
  if (kind == GateKind::Softplus)
    return {-coefficient * sigmoid(z) * dg, dg * gate_of(kind, lower, coefficient, z)};
  const float dx = dg * lower * sigmoid(coefficient * z) * sigmoid(-coefficient * z) * coefficient;
  return {dx, dx * z};
}

// dG, its sums from the chunk's end, and the gate's own backward (kda.md §2.1).
__device__ inline void gate_gradients(const Job& p, const Adjoint& a, const Rows& rows, int hv,
                                      std::int64_t place, GradientShared& shared, Column& own) {
  // What reaches the next state through a key is taken off at the key's token and added at the end:
  // together the sum over earlier keys.
  const float* from_state = shared.from_state + own.sub * kSub * kWideRow + own.channel;
  float sum = 0, from_end[kSub];
#pragma unroll
  for (int i = kSub - 1; i >= 0; --i) {
    sum += own.q(i) * own.dq[i] + own.k(i) * (own.row[i] - own.column[i]);
    from_end[i] = sum;
  }
  shared.sums[own.sub][own.channel] = sum;
  __syncthreads();
  float others = 0;
  for (int other = 0; other < 4; ++other) {
    others += shared.at_end[other][own.channel];
    if (other > own.sub) others += shared.sums[other][own.channel];
    if (other < own.sub) others += shared.past[other][own.channel];
  }
  const Raw raw(p, hv, own.channel);
  float of_A = 0, of_bias = 0;
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    const float dg = from_end[i] + others;
    others = fmaf(own.k(i), from_state[i * kWideRow], others);
    if (i >= own.rows || own.channel >= p.K) continue;
    const std::int64_t at = ((rows.first + own.sub * kSub + i) * p.HV + hv) * p.K + own.channel;
    if (p.gate == GateKind::Given) {
      a.d_g[at] = dg;
      continue;
    }
    if (a.d_g_wide) a.d_g_wide[at] = dg;
    const float2 of =
        raw_gradient(p.gate, p.lower, raw.coefficient, raw_gate(p, at) + raw.bias, dg);
    of_A += of.y;
    of_bias += of.x;
    a.d_raw[at] = narrowed(of.x);
  }
  __syncthreads();
  shared.sums[own.sub][own.channel] = of_bias;
  of_A = warp_sum(of_A);
  if (threadIdx.x % 32 == 0) shared.parts[threadIdx.x / 32] = of_A;
  __syncthreads();
  if (a.d_bias_parts && own.sub == 0 && own.channel < p.K)
    a.d_bias_parts[place * p.K + own.channel] =
        shared.sums[0][own.channel] + shared.sums[1][own.channel] + shared.sums[2][own.channel] +
        shared.sums[3][own.channel];
  if (a.d_A_parts && threadIdx.x == 0) {
    float total = 0;
    for (const float part : shared.parts) total += part;
    a.d_A_parts[place] = total;
  }
}

__device__ inline void beta_gradients(const Job& p, const Adjoint& a, const Rows& rows, int hv,
                                      GradientShared& shared, const Column& own) {
  float values[32];
#pragma unroll
  for (int i = 0; i < kSub; ++i) values[i] = own.by_row[i], values[kSub + i] = 0;
  shared.by_row[own.sub][threadIdx.x / 32 % 4][threadIdx.x % 32] = sums_by_lane(values);
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= rows.rows) return;
  float sum = 0;
  for (int warp = 0; warp < 4; ++warp) sum += shared.by_row[row / kSub][warp][row % kSub];
  const std::int64_t at = (rows.first + row) * p.HV + hv;
  if (a.d_beta_wide) a.d_beta_wide[at] = sum;
  if (p.sigmoid) {
    const float x = device::low_bf16(p.beta[at]);
    sum *= p.beta_factor * sigmoid(x) * sigmoid(-x);
  }
  a.d_beta[at] = narrowed(sum);
}

__global__ void __launch_bounds__(kGradientThreads, 1) gradients(Job p, Adjoint a) {
  extern __shared__ __align__(16) unsigned char gradient_memory[];
  GradientShared& shared = *reinterpret_cast<GradientShared*>(gradient_memory);
  const int chunk = static_cast<int>(blockIdx.x) / p.HV, hv = static_cast<int>(blockIdx.x) % p.HV;
  const Rows rows = rows_of(p, chunk);
  if (rows.rows == 0) return;
  const std::byte *image = image_of(p, chunk, hv), *trail = trail_of(p, chunk, hv);
  Column own;
  own.sub = threadIdx.x / kChannels;
  own.channel = threadIdx.x % kChannels;
  own.rows = rows.rows - own.sub * kSub;
  copy_rows(shared.states, trail + kStates, kChannels, kRow);
  copy_rows(shared.adjoints, trail + kAdjoints, kChannels, kRow);
  copy_rows(shared.written, trail + kWritten, kChunk, kScoreRow);
  copy_rows(shared.solved, trail + kSolved, kChunk, kScoreRow);
  for (int i = 0; i < kSub; ++i) {
    const int row = own.sub * kSub + i;
    shared.d_o[row * kRow + own.channel] =
        i < own.rows && own.channel < p.V
            ? a.d_o[((rows.first + row) * p.HV + hv) * p.V + own.channel]
            : 0;
  }
  if (threadIdx.x < kChunk)
    shared.beta[threadIdx.x] = reinterpret_cast<const float*>(image + kBeta)[threadIdx.x];
  load_column(p, rows, hv, shared, own);
  __syncthreads();
  finish_column(p, shared, own);
  score_gradients(p, shared);
  state_parts(p, rows, hv, shared, image, own);
  add_between(shared, own);
  add_within(shared, own);
  gate_gradients(p, a, rows, hv, std::int64_t{chunk} * p.HV + hv, shared, own);
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    if (i >= own.rows || own.channel >= p.K) continue;
    const std::int64_t at = ((rows.first + own.sub * kSub + i) * p.HV + hv) * p.K + own.channel;
    const float itself = p.defect == Defect::NoDiagonal ? 0.0F : shared.dA_own[own.sub][i][i];
    a.d_q[at] = fmaf(itself, own.k(i), own.dq[i]);
    a.d_k[at] = own.row[i] + fmaf(itself, own.q(i), own.column[i]) +
                shared.from_state[(own.sub * kSub + i) * kWideRow + own.channel];
  }
  beta_gradients(p, a, rows, hv, shared, own);
}

// dq and dk of a query head: the sum over its value heads, through the norm. A warp for a row.
__global__ void __launch_bounds__(256)
    sum_heads(Job p, Adjoint a, std::int64_t rows, std::uint16_t* d_q, std::uint16_t* d_k) {
  const std::int64_t row = std::int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  const int group = p.HV / p.H, lane = threadIdx.x % 32;
  for (const bool of_k : {false, true}) {
    const std::uint16_t* x = (of_k ? p.k : p.q) + row * p.K;
    const float* from = (of_k ? a.d_k : a.d_q) + row * group * p.K;
    float dy[4], value[4], squares = 0, along = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int d = lane + 32 * e;
      dy[e] = value[e] = 0;
      if (d >= p.K) continue;
      for (int head = p.defect == Defect::LastHead ? group - 1 : 0; head < group; ++head)
        dy[e] += from[head * p.K + d];
      value[e] = device::low_bf16(x[d]);
      squares += value[e] * value[e];
      along += value[e] * dy[e];
    }
    if (p.l2norm) {
      const float r = 1 / sqrtf(warp_sum(squares) + 1e-6F), by = warp_sum(along) * r * r;
#pragma unroll
      for (int e = 0; e < 4; ++e) dy[e] = r * (dy[e] - value[e] * by);
    }
    std::uint16_t* to = (of_k ? d_k : d_q) + row * p.K;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (lane + 32 * e < p.K) to[lane + 32 * e] = narrowed(dy[e]);
  }
}

// Sums over all chunks, a thread for each of `width` elements.
__global__ void sum_chunks(const float* parts, int chunks, int width, float* sums) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= width) return;
  double sum = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) sum += parts[std::int64_t{chunk} * width + at];
  sums[at] = static_cast<float>(sum);
}

}  // namespace parity::kda_kernel::hopper
