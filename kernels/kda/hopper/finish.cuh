// The end of the backward: sums within a sub-chunk, gates, beta and norms, and the sums over chunks
// and over the value heads of a query head.
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

// A column's rows of q and k, with the norms' factors.
struct Normal {
  float q[kSub], k[kSub];
  __device__ explicit Normal(const Column& own) {
#pragma unroll
    for (int i = 0; i < kSub; ++i) q[i] = own.q(i), k[i] = own.k(i);
  }
};

// Sums over earlier and later tokens of the own sub-chunk.
__device__ inline void add_within(const GradientShared& shared, const Normal& of, Column& own) {
  const float* beta = shared.beta + own.sub * kSub;
#pragma unroll
  for (int j = 0; j < kSub - 1; ++j) {
    float column = 0;
#pragma unroll
    for (int i = j + 1; i < kSub; ++i) {
      const float2 d = shared.own[own.sub][j][i];
      const float decay = power(own.c[i] - own.c[j]), k = of.k[j] * decay;
      own.dq[i] = fmaf(d.x, k, own.dq[i]);
      own.row[i] = fmaf(d.y, k, own.row[i]);
      column = fmaf(fmaf(d.x, of.q[i], d.y * beta[i] * of.k[i]), decay, column);
    }
    own.column[j] += column;
  }
}

// What a raw gate and the sum for A_log have from dg.
__device__ inline float2 raw_gradient(GateKind kind, float lower, float coefficient, float z,
                                      float dg) {
  if (kind == GateKind::Softplus)
    return {-coefficient * sigmoid(z) * dg, dg * gate_of(kind, lower, coefficient, z)};
  const float dx = dg * lower * sigmoid(coefficient * z) * sigmoid(-coefficient * z) * coefficient;
  return {dx, dx * z};
}

// dG summed from the chunk's end: the gates' gradients, into the thread's column of the buffer.
__device__ inline void sum_gates(GradientShared& shared, const Normal& of, const Column& own) {
  // What reaches the next state through a key is taken off at the key's token and added at the end:
  // together the sum over earlier keys.
  const float* from_state = shared.from_state + own.sub * kSub * kWideRow + own.channel;
  const float* beta = shared.beta + own.sub * kSub;
  float* gradients = shared.buffer + own.sub * kSub * kWideRow + own.channel;
  float sum = 0, from_end[kSub];
#pragma unroll
  for (int i = kSub - 1; i >= 0; --i) {
    sum += of.q[i] * own.dq[i] + of.k[i] * (beta[i] * own.row[i] - own.column[i]);
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
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    gradients[i * kWideRow] = from_end[i] + others;
    others = fmaf(of.k[i], from_state[i * kWideRow], others);
  }
}

// The gate's own backward (kda.md §2.1) of what sum_gates left.
__device__ inline void gate_gradients(const Job& p, const Adjoint& a, const Rows& rows, int hv,
                                      std::int64_t place, GradientShared& shared,
                                      const Column& own) {
  const Raw raw(p, hv, own.channel);
  const float* gates = shared.raw + own.sub * kSub * kChannels + own.channel;
  const float* gradients = shared.buffer + own.sub * kSub * kWideRow + own.channel;
  const int count = own.channel < p.K ? min(own.rows, kSub) : 0;
  const std::int64_t stride = std::int64_t{p.HV} * p.K;
  std::int64_t at = (rows.first + own.sub * kSub) * stride + hv * p.K + own.channel;
  float of_A = 0, of_bias = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i, at += stride) {
    const float dg = gradients[i * kWideRow];
    if (p.gate == GateKind::Given) {
      a.d_g[at] = dg;
      continue;
    }
    if (a.d_g_wide) a.d_g_wide[at] = dg;
    const float2 of =
        raw_gradient(p.gate, p.lower, raw.coefficient, gates[i * kChannels] + raw.bias, dg);
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

// dbeta's key part beside that of the values.
__device__ inline void share_keys(const Job& p, GradientShared& shared, const Normal& of,
                                  const Column& own) {
  float values[32];
#pragma unroll
  for (int i = 0; i < kSub; ++i) values[i] = own.row[i] * of.k[i];
  const float sum = sums_of_rows(values);
  const int lane = threadIdx.x % 32;
  if (lane < kSub && p.defect != Defect::BetaWithoutKeys)
    shared.by_row[own.sub][threadIdx.x / 32 % 4][lane] += sum;
}

__device__ inline void beta_gradients(const Job& p, const Adjoint& a, const Rows& rows, int hv,
                                      const GradientShared& shared) {
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

// dq and dk of the value head, of normalised rows.
__device__ inline void store_keys(const Job& p, const Adjoint& a, const Rows& rows, int hv,
                                  const GradientShared& shared, const Normal& of,
                                  const Column& own) {
  const std::int64_t stride = std::int64_t{p.HV} * p.K;
  const std::int64_t at = (rows.first + own.sub * kSub) * stride + hv * p.K + own.channel;
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    if (i >= own.rows || own.channel >= p.K) continue;
    const int row = own.sub * kSub + i;
    const float itself = p.defect == Defect::NoDiagonal ? 0.0F : shared.own[own.sub][i][i].x;
    a.d_q[at + i * stride] = fmaf(itself, of.k[i], own.dq[i]);
    a.d_k[at + i * stride] = fmaf(shared.beta[row], own.row[i], own.column[i]) +
                             fmaf(itself, of.q[i], shared.from_state[row * kWideRow + own.channel]);
  }
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
  std::uint16_t d_o[kSub], v[kSub];
  load_tokens(a.d_o, rows, p.HV, hv, p.V, own, d_o);
#pragma unroll
  for (int i = 0; i < kSub; ++i) shared.d_o[(own.sub * kSub + i) * kRow + own.channel] = d_o[i];
  if (threadIdx.x < kChunk)
    shared.beta[threadIdx.x] = reinterpret_cast<const float*>(image + kBeta)[threadIdx.x];
  load_column(p, rows, hv, shared, own);
  load_tokens(p.v, rows, p.HV, hv, p.V, own, v);
  wait_copies();
  __syncthreads();
  finish_column(p, shared, own);
  share_values(shared, own, v);
  score_gradients(p, shared);
  state_parts(p, shared, image, own);
  add_between(shared, own);
  const Normal of(own);
  add_within(shared, of, own);
  share_keys(p, shared, of, own);
  sum_gates(shared, of, own);
  store_keys(p, a, rows, hv, shared, of, own);
  gate_gradients(p, a, rows, hv, std::int64_t{chunk} * p.HV + hv, shared, own);
  beta_gradients(p, a, rows, hv, shared);  // behind gate_gradients' barriers
}

// A lane's four channels of a row.
struct Four {
  float x[4];
};
__device__ inline Four four_floats(const float* row, int channel, int K) {
  Four f{};
  if (K % 4 == 0) {
    if (channel < K) memcpy(f.x, __builtin_assume_aligned(row + channel, 16), 16);
  } else {
    for (int e = 0; e < 4; ++e) f.x[e] = channel + e < K ? row[channel + e] : 0.0F;
  }
  return f;
}
__device__ inline Four four_narrow(const std::uint16_t* row, int channel, int K) {
  std::uint32_t two[2] = {};
  if (K % 4 == 0) {
    if (channel < K) memcpy(two, __builtin_assume_aligned(row + channel, 8), 8);
  } else {
    for (int e = 0; e < 4; ++e)
      if (channel + e < K) two[e / 2] |= static_cast<std::uint32_t>(row[channel + e]) << e % 2 * 16;
  }
  return {{device::low_bf16(two[0]), device::high_bf16(two[0]), device::low_bf16(two[1]),
           device::high_bf16(two[1])}};
}

// dq and dk of a query head: the sum over its value heads, through the norm. A warp for a row.
__global__ void __launch_bounds__(256)
    sum_heads(Job p, Adjoint a, std::int64_t rows, std::uint16_t* d_q, std::uint16_t* d_k) {
  const std::int64_t row = std::int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  const int group = p.HV / p.H, d = threadIdx.x % 32 * 4;
  Four dy[2] = {};
  const Four value[2] = {four_narrow(p.q + row * p.K, d, p.K),
                         four_narrow(p.k + row * p.K, d, p.K)};
  for (int head = p.defect == Defect::LastHead ? group - 1 : 0; head < group; ++head)
#pragma unroll
    for (int of_k = 0; of_k < 2; ++of_k) {
      const Four f = four_floats((of_k ? a.d_k : a.d_q) + (row * group + head) * p.K, d, p.K);
#pragma unroll
      for (int e = 0; e < 4; ++e) dy[of_k].x[e] += f.x[e];
    }
#pragma unroll
  for (int of_k = 0; of_k < 2; ++of_k) {
    float(&y)[4] = dy[of_k].x;
    const float(&x)[4] = value[of_k].x;
    if (p.l2norm) {
      float squares = 0, along = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) squares += x[e] * x[e], along += x[e] * y[e];
      const float r = 1 / sqrtf(warp_sum(squares) + 1e-6F), by = warp_sum(along) * r * r;
#pragma unroll
      for (int e = 0; e < 4; ++e) y[e] = r * (y[e] - x[e] * by);
    }
    std::uint16_t* to = (of_k ? d_k : d_q) + row * p.K + d;
    if (p.K % 4 == 0) {
      if (d < p.K)
        *reinterpret_cast<uint2*>(to) =
            uint2{device::pack_bf16(y[0], y[1]), device::pack_bf16(y[2], y[3])};
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (d + e < p.K) to[e] = narrowed(y[e]);
    }
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
