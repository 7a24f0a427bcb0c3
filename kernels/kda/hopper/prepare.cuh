// The first kernel: one thread block of 256 for each chunk and value head.
//
// A thread owns two channels of 16 tokens (sub-chunk I). Gates are summed within the sub-chunk,
// c_i = sum g in log2 units, and totals t_I are shared, so that every decay is a power of two of a
// difference of at most 16 tokens times one of whole sub-chunks.
//
// A score sum_d x_i k_j 2^(G_i - G_j) is one product where i and j lie on different sides of a
// boundary b between them: x_i 2^(G_i - b) times k_j 2^(b - G_j), both exponents <= 0. Boundaries
// at 32, at 16 and 48, and then inside of sub-chunks at 8, 4, 2, 1 give every pair once, at any
// decay. Where 16 tokens' decay cannot leave the range of a float (a lower bound of -5: 2^115), the
// diagonal blocks are one product with the sub-chunk's start as anchor instead (kda.md §4.4).
#pragma once

#include "kernels/kda/hopper/invert.cuh"
#include "kernels/kda/hopper/load.cuh"

namespace parity::kda_kernel::hopper {

constexpr int kPrepareThreads = 256;

// Operands of the scores, rows of kRow.
struct Operands {
  std::uint16_t q[kChunk * kRow], k[kChunk * kRow];        // times 2^(c_i)
  std::uint16_t columns[kChunk * kRow];                    // k 2^(-c_j), or to a boundary inside
  std::uint16_t to_end[3 * kSub * kRow];                   // k 2^(t_I - c_j), sub-chunks 0, 1, 2
  std::uint16_t q_last[kSub * kRow], k_last[kSub * kRow];  // sub-chunk 3 from boundary 32
  std::uint16_t to_middle[kSub * kRow];                    // sub-chunk 0 to boundary 32
};
struct PrepareShared {
  Operands operands;
  float matrix[kChunk * kLd], scratch[2 * kSub * kLd];
  float totals[4][kChannels];
  float squares[4][2][32];  // sums of squares: rows of q, rows of k
  float beta[kChunk];
};

// Factors that make rows of q and k unit vectors, of all 128 channels: two warps each have half.
__device__ inline void share_squares(const Own& own, PrepareShared& shared) {
  float squares[32];
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    const float q0 = device::low_bf16(own.q[i]), q1 = device::high_bf16(own.q[i]);
    const float k0 = device::low_bf16(own.k[i]), k1 = device::high_bf16(own.k[i]);
    squares[i] = q0 * q0 + q1 * q1;
    squares[kSub + i] = k0 * k0 + k1 * k1;
  }
  shared.squares[own.sub][own.channel / kPanelChannels][threadIdx.x % 32] = sums_by_lane(squares);
}

__device__ inline void norm_factors(const Job& p, const PrepareShared& shared, Own& own) {
  float mine = 1;
  if (p.l2norm) {
    const int lane = threadIdx.x % 32;
    mine = 1 / sqrtf(shared.squares[own.sub][0][lane] + shared.squares[own.sub][1][lane] + 1e-6F);
  }
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    own.of_q[i] = __shfl_sync(0xFFFFFFFFU, mine, i);
    own.of_k[i] = __shfl_sync(0xFFFFFFFFU, mine, kSub + i);
  }
}

__device__ inline void put(std::uint16_t* operand, int row, int channel, float x0, float x1) {
  *reinterpret_cast<std::uint32_t*>(operand + row * kRow + channel) = device::pack_bf16(x0, x1);
}

// Decays over whole sub-chunks, of two channels.
struct Spans {
  float before[2],
      after[2];  // from the chunk's start to the sub-chunk's, from its end to the chunk's
  float second[2], third[2];  // over sub-chunk 1 and 2: between sub-chunk 0 or 3 and boundary 32
  float undo[2];              // 1 / decay over the own sub-chunk
  __device__ Spans(const Own& own, const PrepareShared& shared, std::byte* image) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float total[4], first = 0, last = 0;
#pragma unroll
      for (int other = 0; other < 4; ++other) {
        total[other] = shared.totals[other][own.channel + e];
        first += other < own.sub ? total[other] : 0.0F;
        last += other > own.sub ? total[other] : 0.0F;
      }
      before[e] = power(first), after[e] = power(last);
      second[e] = power(total[1]), third[e] = power(total[2]);
      undo[e] = power(-own.c[e][kSub - 1]);
      if (own.sub == 0)
        reinterpret_cast<float*>(image + kDecay)[own.channel + e] = exact_power(total[0] + last);
    }
  }
};

// The image's keys, reads, writes and decay, and the operands for boundaries at 16, 32 and 48.
template <bool kAnchored>
__device__ void fill(const Job& p, const Own& own, PrepareShared& shared, std::byte* image) {
  Operands& to = shared.operands;
  const int I = own.sub, d = own.channel;
  const Spans spans(own, shared, image);
  const float scale = p.defect == Defect::UnscaledReads ? 1.0F : p.scale;
  std::byte* panel = image + d / kPanelChannels * kPanel + I * kSub * device::kSwizzledRow;
  const std::uint32_t byte = d % kPanelChannels * 2;
  std::uint32_t writes[2][kSub / 2];
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    const int row = I * kSub + i;
    const float q[2] = {device::low_bf16(own.q[i]) * own.of_q[i],
                        device::high_bf16(own.q[i]) * own.of_q[i]};
    const float k[2] = {device::low_bf16(own.k[i]) * own.of_k[i],
                        device::high_bf16(own.k[i]) * own.of_k[i]};
    float qd[2], kd[2], ke[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float decay = power(own.c[e][i]);
      qd[e] = q[e] * decay;
      kd[e] = k[e] * decay;
      ke[e] = k[e] * power(own.c[e][kSub - 1] - own.c[e][i]);
    }
    put(to.q, row, d, qd[0], qd[1]);
    put(to.k, row, d, kd[0], kd[1]);
    if (kAnchored) put(to.columns, row, d, ke[0] * spans.undo[0], ke[1] * spans.undo[1]);
    if (I < 3) put(to.to_end, row, d, ke[0], ke[1]);
    if (I == 0) put(to.to_middle, i, d, ke[0] * spans.second[0], ke[1] * spans.second[1]);
    if (I == 3) {
      put(to.q_last, i, d, qd[0] * spans.third[0], qd[1] * spans.third[1]);
      put(to.k_last, i, d, kd[0] * spans.third[0], kd[1] * spans.third[1]);
    }
    // A row's number modulo 8 is that of i.
    std::byte* at = panel + (byte ^ i % 8 * 16) + i * device::kSwizzledRow;
    *reinterpret_cast<std::uint32_t*>(at + kKeys) =
        device::pack_bf16(kd[0] * spans.before[0], kd[1] * spans.before[1]);
    *reinterpret_cast<std::uint32_t*>(at + kReads) =
        device::pack_bf16(qd[0] * (spans.before[0] * scale), qd[1] * (spans.before[1] * scale));
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float w = ke[e] * spans.after[e];
      if (i % 2 == 0)
        writes[e][i / 2] = __float_as_uint(w);
      else
        writes[e][i / 2] = device::pack_bf16(__uint_as_float(writes[e][i / 2]), w);
    }
  }
#pragma unroll
  for (int e = 0; e < 2; ++e)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t phase = (d + e + (p.defect == Defect::WrongSwizzle ? 1 : 0)) % 8 * 16;
      const std::uint32_t place = (d + e) * device::kSwizzledRow + ((I * 32 + half * 16) ^ phase);
      const std::uint32_t* of = writes[e] + half * 4;
      *reinterpret_cast<uint4*>(image + kWrites + place) = uint4{of[0], of[1], of[2], of[3]};
    }
}

// Operands for the boundaries inside of a sub-chunk after every kLevel-th token: tokens with that
// bit are rows, the others columns. Level 0: a token with itself.
template <int kLevel>
__device__ void fill_inside(const Own& own, Operands& to) {
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    const bool row = kLevel == 0 || (i & kLevel) != 0, column = kLevel == 0 || !row;
    const int boundary = kLevel == 0 ? i : (i & ~(2 * kLevel - 1)) + kLevel - 1;
    float decay[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float exponent = own.c[e][i] - own.c[e][boundary];
      decay[e] = kLevel == 0 ? 1.0F : power(row ? exponent : -exponent);
    }
    const float k[2] = {device::low_bf16(own.k[i]) * own.of_k[i] * decay[0],
                        device::high_bf16(own.k[i]) * own.of_k[i] * decay[1]};
    const int at = own.sub * kSub + i;
    if (row) {
      put(to.q, at, own.channel, device::low_bf16(own.q[i]) * own.of_q[i] * decay[0],
          device::high_bf16(own.q[i]) * own.of_q[i] * decay[1]);
      put(to.k, at, own.channel, k[0], k[1]);
    }
    if (column) put(to.columns, at, own.channel, k[0], k[1]);
  }
}

// 16 rows of `a` times 8 kTiles rows of `b`, over all channels.
template <int kPairs>
__device__ void multiply(const std::uint16_t* a, const std::uint16_t* b,
                         float (&d)[2 * kPairs][4]) {
  const int lane = threadIdx.x % 32;
  const std::uint32_t at_a = device::shared_address(a + lane % 16 * kRow + lane / 16 * 8);
  const std::uint32_t at_b =
      device::shared_address(b + (lane / 16 * 8 + lane % 8) * kRow + lane / 8 % 2 * 8);
#pragma unroll
  for (int k = 0; k < kChannels; k += 16) {
    std::uint32_t rows[4];
    device::load_matrices(rows, at_a + k * 2);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      std::uint32_t columns[4];
      device::load_matrices(columns, at_b + pair * kSub * kRow * 2 + k * 2);
      device::multiply_bf16(d[2 * pair], rows, columns[0], columns[1]);
      device::multiply_bf16(d[2 * pair + 1], rows, columns[2], columns[3]);
    }
  }
}

// Places of the image and of the matrix that one warp's product of 16 x 16 kTiles / 2 has.
struct Scores {
  const Job& p;
  PrepareShared& shared;
  std::byte* image;
  bool of_k;

  __device__ void put_pair(int row, int column, float x0, float x1) const {
    if (of_k) {
      const bool by_column = p.defect == Defect::ColumnBeta;
      float* to = shared.matrix + row * kLd + column;
      to[0] = x0 * shared.beta[by_column ? column : row];
      to[1] = x1 * shared.beta[by_column ? column + 1 : row];
    } else {
      *reinterpret_cast<std::uint32_t*>(image + kScores + device::swizzled(row, column * 2)) =
          device::pack_bf16(p.scale * x0, p.scale * x1);
    }
  }
  template <int kTiles>
  __device__ void put_all(int row, int column, const float (&d)[kTiles][4]) const {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      put_pair(row + g, column + tile * 8 + 2 * t, d[tile][0], d[tile][1]);
      put_pair(row + g + 8, column + tile * 8 + 2 * t, d[tile][2], d[tile][3]);
    }
  }
};

// Boundaries 32 (four warps) and 16 and 48 (the other four).
__device__ inline void scores_between(const Scores& to, int warp) {
  const Operands& of = to.shared.operands;
  const std::uint16_t* rows = to.of_k ? of.k : of.q;
  const int m = warp / 2 % 2;
  if (warp < 4) {
    const std::uint16_t* a = m == 0 ? rows + 2 * kSub * kRow : to.of_k ? of.k_last : of.q_last;
    float first[2][4] = {}, second[2][4] = {};
    multiply<1>(a, of.to_middle, first);
    multiply<1>(a, of.to_end + kSub * kRow, second);
    to.put_all((2 + m) * kSub, 0, first);
    to.put_all((2 + m) * kSub, kSub, second);
  } else {
    float d[2][4] = {};
    multiply<1>(rows + (2 * m + 1) * kSub * kRow, of.to_end + 2 * m * kSub * kRow, d);
    to.put_all((2 * m + 1) * kSub, 2 * m * kSub, d);
  }
}

// The pairs of a level, out of the 16 x 16 that a product gives; level -1: all, with the diagonal.
__device__ inline void select(int level, bool of_k, bool strict, const float (&from)[2][4],
                              float (&to)[2][4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = g + e / 2 * 8, j = tile * 8 + 2 * t + e % 2, differ = i ^ j;
      const bool here = level < 0 || (level == 0 ? i == j : differ >= level && differ < 2 * level);
      if (here && (i > j || (i == j && !of_k && !strict))) to[tile][e] = from[tile][e];
    }
}

// The warp's diagonal block.
template <int kLevel>
__device__ void add_level(const Scores& scores, const Own& own, float (&diagonal)[2][4]) {
  Operands& of = scores.shared.operands;
  if (kLevel >= 0) {
    __syncthreads();
    fill_inside<kLevel>(own, of);
    __syncthreads();
  }
  float d[2][4] = {};
  const int first = threadIdx.x / 64 * kSub * kRow;
  multiply<1>((scores.of_k ? of.k : of.q) + first, of.columns + first, d);
  select(kLevel, scores.of_k, scores.p.defect == Defect::StrictMask, d, diagonal);
}

__device__ inline void load_beta(const Job& p, const Rows& rows, int hv, PrepareShared& shared,
                                 std::byte* image) {
  float beta = 0;
  if (threadIdx.x < rows.rows) {
    const std::int64_t at = (rows.first + threadIdx.x) * p.HV + hv;
    beta = device::low_bf16(p.beta[at]);
    if (p.sigmoid) beta = p.beta_factor * sigmoid(beta);
    if (p.beta_tap) p.beta_tap[at] = beta;
  }
  shared.beta[threadIdx.x] = beta;
  reinterpret_cast<float*>(image + kBeta)[threadIdx.x] = beta;
}

// Blocks of 16 above the diagonal.
__device__ inline void clear_upper(PrepareShared& shared, std::byte* image) {
  const int row = threadIdx.x / 4, block = threadIdx.x % 4;
  if (block <= row / kSub) return;
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t place = device::swizzled(row, block * 32 + half * 16);
    *reinterpret_cast<uint4*>(image + kScores + place) = uint4{};
    *reinterpret_cast<uint4*>(image + kInverse + place) = uint4{};
  }
  for (int e = 0; e < kSub; e += 4)
    *reinterpret_cast<float4*>(shared.matrix + row * kLd + block * kSub + e) = float4{};
}

// (I + L)^-1, up to the diagonal.
__device__ inline void store_inverse(const PrepareShared& shared, std::byte* image) {
  const int row = threadIdx.x / 4, block = threadIdx.x % 4;
  if (block > row / kSub) return;
  const float* from = shared.matrix + row * kLd + block * kSub;
#pragma unroll
  for (int half = 0; half < 2; ++half, from += 8)
    *reinterpret_cast<uint4*>(image + kInverse + device::swizzled(row, block * 32 + half * 16)) =
        uint4{device::pack_bf16(from[0], from[1]), device::pack_bf16(from[2], from[3]),
              device::pack_bf16(from[4], from[5]), device::pack_bf16(from[6], from[7])};
}

template <bool kWide, bool kAnchored>
__global__ void __launch_bounds__(kPrepareThreads, 2) prepare(Job p) {
  extern __shared__ __align__(16) unsigned char prepare_memory[];
  PrepareShared& shared = *reinterpret_cast<PrepareShared*>(prepare_memory);
  const int chunk = static_cast<int>(blockIdx.x) / p.HV, hv = static_cast<int>(blockIdx.x) % p.HV,
            warp = threadIdx.x / 32;
  const Rows rows = rows_of(p, chunk);
  if (rows.rows == 0) return;
  std::byte* image = image_of(p, chunk, hv);
  Own own;
  own.sub = warp / 2;
  own.channel = (warp % 2 * 32 + threadIdx.x % 32) * 2;
  own.rows = rows.rows - own.sub * kSub;
  load<kWide, kAnchored>(p, rows, hv, own);
  if (threadIdx.x < kChunk) load_beta(p, rows, hv, shared, image);
  if (p.l2norm) share_squares(own, shared);
  for (int e = 0; e < 2; ++e) shared.totals[own.sub][own.channel + e] = own.c[e][kSub - 1];
  clear_upper(shared, image);
  __syncthreads();
  norm_factors(p, shared, own);
  fill<kAnchored>(p, own, shared, image);
  __syncthreads();

  const Scores scores{p, shared, image, warp % 2 == 1};
  scores_between(scores, warp);
  float diagonal[2][4] = {};
  if (kAnchored) {
    add_level<-1>(scores, own, diagonal);
  } else {
    add_level<8>(scores, own, diagonal);
    add_level<4>(scores, own, diagonal);
    add_level<2>(scores, own, diagonal);
    add_level<1>(scores, own, diagonal);
    add_level<0>(scores, own, diagonal);
  }
  scores.put_all(warp / 2 * kSub, warp / 2 * kSub, diagonal);
  __syncthreads();
  invert(shared.matrix, shared.scratch, p.defect);
  store_inverse(shared, image);
}

}  // namespace parity::kda_kernel::hopper
