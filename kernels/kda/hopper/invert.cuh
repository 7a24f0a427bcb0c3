// The inverse of a unit lower triangular 64 x 64 matrix in shared memory, in place: diagonal blocks
// of 16 by forward substitution in f32, then merged in pairs by products in tf32 (to nearest):
//   (I + L)^-1 of [A 0; B C] is [A' 0; -C' B A' C'].
#pragma once

#include "kernels/kda/hopper/job.cuh"

namespace parity::kda_kernel::hopper {

constexpr int kLd = kChunk + 4;  // floats in a row: rows apart by 4 banks

// One column of one diagonal block a thread, 64 threads.
__device__ inline void invert_diagonal(float* matrix) {
  const int block = threadIdx.x / 16 * 16, j = threadIdx.x % 16;
  float* at = matrix + block * kLd + block;
  float m[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sum = i == j ? 1.0F : 0.0F, other = 0;
#pragma unroll
    for (int l = 0; l < i; l += 4) {
      const float4 row = *reinterpret_cast<const float4*>(at + i * kLd + l);
      sum = fmaf(-row.x, m[l], sum);
      if (l + 1 < i) other = fmaf(-row.y, m[l + 1], other);
      if (l + 2 < i) sum = fmaf(-row.z, m[l + 2], sum);
      if (l + 3 < i) other = fmaf(-row.w, m[l + 3], other);
    }
    m[i] = sum + other;
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16; ++i) at[i * kLd + j] = m[i];
}

// 16 x 8 of a b, over 8 `steps` terms.
template <int kSteps>
__device__ inline void product_tile(const float* a, const float* b, float (&d)[4]) {
  using device::to_tf32;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < kSteps * 8; k += 8) {
    const std::uint32_t rows[4] = {to_tf32(a[g * kLd + k + t]), to_tf32(a[(g + 8) * kLd + k + t]),
                                   to_tf32(a[g * kLd + k + t + 4]),
                                   to_tf32(a[(g + 8) * kLd + k + t + 4])};
    device::multiply_tf32(d, rows, to_tf32(b[(k + t) * kLd + g]),
                          to_tf32(b[(k + t + 4) * kLd + g]));
  }
}

__device__ inline void put_tile(float* to, const float (&d)[4], float sign) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  to[g * kLd + 2 * t] = sign * d[0];
  to[g * kLd + 2 * t + 1] = sign * d[1];
  to[(g + 8) * kLd + 2 * t] = sign * d[2];
  to[(g + 8) * kLd + 2 * t + 1] = sign * d[3];
}

// Blocks of kSize: warps 0 .. (kChunk / kSize / 2) (kSize / 16) (kSize / 8) - 1, a tile each.
template <int kSize>
__device__ void merge(float* matrix, float* scratch, Defect defect) {
  constexpr int kTilesDown = kSize / 16, kTilesAcross = kSize / 8;
  const int warp = threadIdx.x / 32, pair = warp / (kTilesDown * kTilesAcross);
  const bool works = pair < kChunk / kSize / 2;
  const int i = warp / kTilesAcross % kTilesDown * 16, j = warp % kTilesAcross * 8;
  const int upper = pair * 2 * kSize, lower = upper + kSize;
  float* product = scratch + pair * kSize * kLd;
  if (defect == Defect::MissingSync && i == 0) __nanosleep(5000);
  if (works) {
    float d[4] = {};
    product_tile<kSize / 8>(matrix + (lower + i) * kLd + upper, matrix + upper * kLd + upper + j,
                            d);
    put_tile(product + i * kLd + j, d, 1);
  }
  if (defect != Defect::MissingSync) __syncthreads();
  if (works) {
    float d[4] = {};
    if (defect == Defect::HalfMerge)
      product_tile<2>(matrix + (lower + i) * kLd + lower + i, product + i * kLd + j, d);
    else
      product_tile<kSize / 8>(matrix + (lower + i) * kLd + lower, product + j, d);
    put_tile(matrix + (lower + i) * kLd + upper + j, d, -1);
  }
  __syncthreads();
}

// All threads of a block of 256. The upper triangle is zero.
__device__ inline void invert(float* matrix, float* scratch, Defect defect) {
  if (threadIdx.x < kChunk) invert_diagonal(matrix);
  __syncthreads();
  merge<16>(matrix, scratch, defect);
  merge<32>(matrix, scratch, defect);
}

}  // namespace parity::kda_kernel::hopper
