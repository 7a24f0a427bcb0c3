// The backward's last kernel but the sums (its end is in finish.cuh): one thread block of 512 for
// each chunk and value head. With the trail's S, dS, v' and y = (I + L)^-T dv' (kda.md §4.1,
// through y in place of dW and dM):
//   dA = scale tril(dO v'^T);  dL = -strict_tril(y v'^T)
//   dq = scale 2^G (dO S^T) + sum_j dA_ij k_j 2^(G_i - G_j)
//   dk = beta (2^G (-y S^T) + r) + col + 2^(G_end - G) (v' dS^T)
//        r_i = sum_j dL_ij k_j 2^(G_i - G_j);  col_j = sum_i (dA_ij q_i + dL_ij beta_i k_i) 2^(G_i
//        - G_j)
//   dbeta = y . v + k . (2^G (-y S^T) + r)
//   dG = q dq + k (dk of rows) - k (dk of columns), and at the end what decays the state
// Sums of tokens in different sub-chunks of 16 are products in bf16 about boundaries at 32, 16 and
// 48 like the forward's; those within a sub-chunk are made in f32, decay by decay, each thread for
// one channel. A token with itself takes no part in dG, where its two terms cancel. Shared memory
// takes nearly all of L1, so that a register that does not fit costs a way to L2: what a thread
// needs of its 16 tokens only once lies in shared memory.
#pragma once

#include "kernels/kda/hopper/prepare.cuh"

namespace parity::kda_kernel::hopper {

constexpr int kGradientThreads = 512;
constexpr int kScoreRow = kChunk + 8, kWideRow = kChannels + 4;

struct GradientShared {
  union {
    struct {
      std::uint16_t d_o[kChunk * kRow];
      std::uint16_t states[kMostColumns * kRow], adjoints[kMostColumns * kRow];
      std::uint16_t written[kMostColumns * kScoreRow], solved[kMostColumns * kScoreRow];
    };
    struct {                                                 // later
      std::uint16_t q[3 * kSub * kRow], k[3 * kSub * kRow];  // sub-chunks 1, 2, 3; k times beta
      std::uint16_t q_last[kSub * kRow], k_last[kSub * kRow];
      std::uint16_t to_end[3 * kSub * kRow], to_middle[kSub * kRow];
      float from_state[kChunk * kWideRow];  // the part of dk that comes from the next state
    };
  };
  std::uint16_t dA[kChunk * kScoreRow], dL[kChunk * kScoreRow];
  float2 own[4][kSub][kSub];      // diagonal blocks, columns first: dA and dL of [column][row]
  float raw[kChunk * kChannels];  // gates as given
  float buffer[kChunk * kWideRow];
  float totals[4][kChannels], sums[4][kChannels], at_end[4][kChannels], past[4][kChannels];
  float factors[4][32];  // of the norms: rows of q, rows of k
  float squares[4][4][32], by_row[4][4][kSub];
  float beta[kChunk], parts[16];
};

// d += a b over 16 kSteps terms; a as rows, or kTurned as columns; b as rows of terms.
template <bool kTurned, int kPairs, int kSteps>
__device__ void add_product(const std::uint16_t* a, int row_a, const std::uint16_t* b, int row_b,
                            float (&d)[2 * kPairs][4]) {
  const int lane = threadIdx.x % 32, in = lane % 8;
  const std::uint32_t at_a =
      device::shared_address(kTurned ? a + (lane / 16 * 8 + in) * row_a + lane / 8 % 2 * 8
                                     : a + lane % 16 * row_a + lane / 16 * 8);
  const std::uint32_t at_b =
      device::shared_address(b + (lane / 8 % 2 * 8 + in) * row_b + lane / 16 * 8);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t rows[4];
    if (kTurned)
      device::load_transposed(rows, at_a + step * 32 * row_a);
    else
      device::load_matrices(rows, at_a + step * 32);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      std::uint32_t columns[4];
      device::load_transposed(columns, at_b + step * 32 * row_b + pair * 32);
      device::multiply_bf16(d[2 * pair], rows, columns[0], columns[1]);
      device::multiply_bf16(d[2 * pair + 1], rows, columns[2], columns[3]);
    }
  }
}

// d += a block of 16 x 16 of scores times 16 rows of an operand, 8 channels.
template <bool kTurned>
__device__ void add_block(const std::uint16_t* scores, const std::uint16_t* operand,
                          float (&d)[4]) {
  const int lane = threadIdx.x % 32, in = lane % 8;
  std::uint32_t rows[4], columns[2];
  if (kTurned)
    device::load_transposed(
        rows, device::shared_address(scores + (lane / 16 * 8 + in) * kScoreRow + lane / 8 % 2 * 8));
  else
    device::load_matrices(rows,
                          device::shared_address(scores + lane % 16 * kScoreRow + lane / 16 * 8));
  device::load_two_transposed(columns, device::shared_address(operand + lane % 16 * kRow));
  device::multiply_bf16(d, rows, columns[0], columns[1]);
}

// Begins a copy; wait_copies() waits for all that the thread began.
__device__ inline void copy_rows(std::uint16_t* to, const std::byte* from, int width, int row_to) {
  const int pieces = width / 8;
  for (int i = threadIdx.x; i < kMostColumns * pieces; i += kGradientThreads)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     device::shared_address(to + i / pieces * row_to + i % pieces * 8)),
                 "l"(from + i * 16)
                 : "memory");
}
__device__ inline void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// A warp's 16 rows and 8 kTiles channels into the buffer.
template <int kTiles>
__device__ void put_wide(float* buffer, int row, int column, const float (&d)[kTiles][4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float2*>(buffer + (row + g + half * 8) * kWideRow + column + tile * 8 +
                                 2 * t) = float2{d[tile][2 * half], d[tile][2 * half + 1]};
}

// A thread's channel and 16 tokens.
struct Column {
  int sub, channel, rows;
  std::uint32_t qk[kSub];                   // as stored: q below, k above
  const float* factors;                     // of the norms, in shared memory
  float c[kSub];                            // log2 of the decay from the sub-chunk's start
  float before, after;                      // decays of whole sub-chunks, as in the forward
  float dq[kSub], row[kSub], column[kSub];  // dq; dk / beta as a row of scores; dk as a column

  __device__ float q(int i) const { return device::low_bf16(qk[i]) * factors[i]; }
  __device__ float k(int i) const { return device::high_bf16(qk[i]) * factors[kSub + i]; }
};

struct Raw {
  float coefficient, bias;
  __device__ Raw(const Job& p, int hv, int channel) {
    coefficient = p.A_log ? exp_of(p.A_log[hv]) : 1.0F;
    bias = p.bias && channel < p.K ? p.bias[hv * p.K + channel] : 0.0F;
  }
};

// The column's 16 elements of one head of a tensor, zero behind the end.
template <class T>
__device__ void load_tokens(const T* tensor, const Rows& rows, int heads, int head, int width,
                            const Column& own, T (&to)[kSub]) {
  const std::int64_t stride = std::int64_t{heads} * width;
  const T* at = tensor + (rows.first + own.sub * kSub) * stride + head * width + own.channel;
#pragma unroll
  for (int i = 0; i < kSub; ++i) to[i] = i < own.rows && own.channel < width ? at[i * stride] : T{};
}

// Keys, gates and the norms' factors of the thread's column.
__device__ inline void load_column(const Job& p, const Rows& rows, int hv, GradientShared& shared,
                                   Column& own) {
  const int head = hv / (p.HV / p.H), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::uint16_t q[kSub], k[kSub];
  load_tokens(p.q, rows, p.H, head, p.K, own, q);
  load_tokens(p.k, rows, p.H, head, p.K, own, k);
  float* gates = shared.raw + own.sub * kSub * kChannels + own.channel;
  if (p.gate == GateKind::Given) {
    float x[kSub];
    load_tokens(static_cast<const float*>(p.gate_in), rows, p.HV, hv, p.K, own, x);
#pragma unroll
    for (int i = 0; i < kSub; ++i) gates[i * kChannels] = x[i];
  } else {
    std::uint16_t x[kSub];
    load_tokens(static_cast<const std::uint16_t*>(p.gate_in), rows, p.HV, hv, p.K, own, x);
#pragma unroll
    for (int i = 0; i < kSub; ++i) gates[i * kChannels] = device::low_bf16(x[i]);
  }
  const Raw raw(p, hv, own.channel);
  float squares[32], sum = 0;
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    own.qk[i] = q[i] | static_cast<std::uint32_t>(k[i]) << 16;
    const float of_q = device::low_bf16(q[i]), of_k = device::low_bf16(k[i]);
    squares[i] = of_q * of_q, squares[kSub + i] = of_k * of_k;
  }
  if (p.l2norm) shared.squares[own.sub][warp % 4][lane] = sums_by_lane(squares);
  float* sums = shared.buffer + own.sub * kSub * kWideRow + own.channel;
#pragma unroll 1
  for (int i = 0; i < kSub; ++i) {
    if (i < own.rows && own.channel < p.K)
      sum = fmaf(gate_of(p.gate, p.lower, raw.coefficient, gates[i * kChannels] + raw.bias), kLog2e,
                 sum);
    sums[i * kWideRow] = sum;
  }
#pragma unroll
  for (int i = 0; i < kSub; ++i) own.c[i] = sums[i * kWideRow];
  shared.totals[own.sub][own.channel] = sum;
}

// Sums of 16 values over the lanes of a warp: lane l has that of value l % 16.
__device__ inline float sums_of_rows(float (&values)[32]) {
  const float half = sums_by_lane<8>(values);
  return half + __shfl_xor_sync(0xFFFFFFFFU, half, 16);
}

// dbeta's part y . v, before the products need the registers.
__device__ inline void share_values(GradientShared& shared, const Column& own,
                                    const std::uint16_t (&v)[kSub]) {
  std::uint32_t y[kSub / 2];
  const auto* from =
      reinterpret_cast<const uint4*>(shared.solved + own.channel * kScoreRow + own.sub * kSub);
  memcpy(y, from, 16), memcpy(y + 4, from + 1, 16);
  float values[32];
#pragma unroll
  for (int i = 0; i < kSub; ++i)
    values[i] =
        device::low_bf16(v[i]) * (i % 2 ? device::high_bf16(y[i / 2]) : device::low_bf16(y[i / 2]));
  const float sum = sums_of_rows(values);
  const int lane = threadIdx.x % 32;
  if (lane < kSub) shared.by_row[own.sub][threadIdx.x / 32 % 4][lane] = sum;
}

__device__ inline void finish_column(const Job& p, GradientShared& shared, Column& own) {
  const int lane = threadIdx.x % 32;
  float mine = 1, first = 0, last = 0;
  if (p.l2norm) {
    const auto& s = shared.squares[own.sub];
    mine = 1 / sqrtf(s[0][lane] + s[1][lane] + s[2][lane] + s[3][lane] + 1e-6F);
  }
  own.factors = shared.factors[own.sub];
  if (threadIdx.x / 32 % 4 == 0) shared.factors[own.sub][lane] = mine;  // read behind a barrier
  for (int other = 0; other < 4; ++other) {
    const float total = shared.totals[other][own.channel];
    first += other < own.sub ? total : 0.0F;
    last += other > own.sub ? total : 0.0F;
  }
  own.before = power(first), own.after = power(last);
}

// dA and dL of the lower blocks: a warp for 16 x 16.
__device__ inline void score_gradients(const Job& p, GradientShared& shared) {
  const int warp = threadIdx.x / 32, m = warp % 4, n = warp / 4;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (n > m) return;
  float dA[2][4] = {}, dL[2][4] = {};
  add_product<false, 1, 8>(shared.d_o + m * kSub * kRow, kRow, shared.written + n * kSub, kScoreRow,
                           dA);
  add_product<true, 1, 8>(shared.solved + m * kSub, kScoreRow, shared.written + n * kSub, kScoreRow,
                          dL);
#pragma unroll
  for (int tile = 0; tile < 2; ++tile)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = g + e / 2 * 8, j = tile * 8 + 2 * t + e % 2;
      const float of_A = p.scale * dA[tile][e], of_L = -dL[tile][e];
      if (m == n) {
        shared.own[m][j][i] = float2{of_A, of_L};
      } else {
        const int at = (m * kSub + i) * kScoreRow + n * kSub + j;
        shared.dA[at] = static_cast<std::uint16_t>(device::pack_bf16(of_A, 0));
        shared.dL[at] = static_cast<std::uint16_t>(device::pack_bf16(of_L, 0));
      }
    }
}

// The parts that come from and go to the state.
__device__ inline void state_parts(const Job& p, GradientShared& shared, const std::byte* image,
                                   Column& own) {
  const int warp = threadIdx.x / 32, m = warp % 4, first = warp / 4 * 32;
  const float* column = shared.buffer + own.sub * kSub * kWideRow + own.channel;
  const auto spread = [&](const float(&d)[4][4]) {
    __syncthreads();
    if (p.defect == Defect::StaleGradients && warp < 8) __nanosleep(5000);
    put_wide(shared.buffer, m * kSub, first, d);
    if (p.defect != Defect::StaleGradients) __syncthreads();
  };
  {
    float d[4][4] = {};
    add_product<false, 2, 8>(shared.d_o + m * kSub * kRow, kRow, shared.states + first, kRow, d);
    spread(d);
#pragma unroll
    for (int i = 0; i < kSub; ++i)
      own.dq[i] = column[i * kWideRow] * p.scale * (power(own.c[i]) * own.before);
  }
  {
    float d[4][4] = {};
    add_product<true, 2, 8>(shared.solved + m * kSub, kScoreRow, shared.states + first, kRow, d);
    spread(d);
#pragma unroll
    for (int i = 0; i < kSub; ++i)
      own.row[i] = -column[i * kWideRow] * (power(own.c[i]) * own.before);
  }
  float d[4][4] = {};
  add_product<true, 2, 8>(shared.written + m * kSub, kScoreRow, shared.adjoints + first, kRow, d);
  spread(d);
  float past = 0;
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    own.column[i] = column[i * kWideRow] * (power(own.c[kSub - 1] - own.c[i]) * own.after);
    past = fmaf(own.k(i), own.column[i], past);
  }
  float products = 0;
  for (int v = own.sub * 32; v < own.sub * 32 + 32; ++v)
    products = fmaf(device::low_bf16(shared.states[v * kRow + own.channel]),
                    device::low_bf16(shared.adjoints[v * kRow + own.channel]), products);
  const float decay = reinterpret_cast<const float*>(image + kDecay)[own.channel];
  shared.at_end[own.sub][own.channel] = p.defect == Defect::NoLastGate ? 0.0F : decay * products;
  shared.past[own.sub][own.channel] = past;
}

__device__ inline void put_one(std::uint16_t* operand, int row, int channel, float x) {
  operand[row * kRow + channel] = static_cast<std::uint16_t>(device::pack_bf16(x, 0));
}

// Sums over tokens of other sub-chunks: a warp for 8 channels.
__device__ inline void add_between(GradientShared& shared, Column& own) {
  const float second = power(shared.totals[1][own.channel]),
              third = power(shared.totals[2][own.channel]);
  __syncthreads();  // states and the like are read
#pragma unroll
  for (int i = 0; i < kSub; ++i) {
    const float decay = power(own.c[i]), q = own.q(i) * decay,
                k = own.k(i) * shared.beta[own.sub * kSub + i] * decay,
                ke = own.k(i) * power(own.c[kSub - 1] - own.c[i]);
    const int row = own.sub * kSub + i;
    shared.from_state[row * kWideRow + own.channel] = own.column[i];
    own.column[i] = 0;
    if (own.sub > 0) {
      put_one(shared.q, row - kSub, own.channel, q);
      put_one(shared.k, row - kSub, own.channel, k);
    }
    if (own.sub < 3) put_one(shared.to_end, row, own.channel, ke);
    if (own.sub == 0) put_one(shared.to_middle, i, own.channel, ke * second);
    if (own.sub == 3) {
      put_one(shared.q_last, i, own.channel, q * third);
      put_one(shared.k_last, i, own.channel, k * third);
    }
  }
  __syncthreads();
  const int channel = threadIdx.x / 32 * 8, t = threadIdx.x % 4;
  const auto block = [](const std::uint16_t* scores, int I, int J) {
    return scores + I * kSub * kScoreRow + J * kSub;
  };
  const auto rows_of_operand = [&](const std::uint16_t* operand, int sub) {
    return operand + sub * kSub * kRow + channel;
  };
  const auto add_scaled = [&](float(&d)[1][4], const float(&far)[4], int sub) {
    const float by[2] = {power(shared.totals[sub][channel + 2 * t]),
                         power(shared.totals[sub][channel + 2 * t + 1])};
    for (int e = 0; e < 4; ++e) d[0][e] = fmaf(by[e % 2], far[e], d[0][e]);
  };
  const auto rows = [&](const std::uint16_t* scores) {
    float d[3][1][4] = {}, far[4] = {};
    add_block<false>(block(scores, 1, 0), rows_of_operand(shared.to_end, 0), d[0][0]);
    add_block<false>(block(scores, 2, 0), rows_of_operand(shared.to_middle, 0), d[1][0]);
    add_block<false>(block(scores, 2, 1), rows_of_operand(shared.to_end, 1), d[1][0]);
    add_block<false>(block(scores, 3, 0), rows_of_operand(shared.to_middle, 0), far);
    add_block<false>(block(scores, 3, 1), rows_of_operand(shared.to_end, 1), far);
    add_block<false>(block(scores, 3, 2), rows_of_operand(shared.to_end, 2), d[2][0]);
    add_scaled(d[2], far, 2);
    for (int I = 1; I < 4; ++I) put_wide(shared.buffer, I * kSub, channel, d[I - 1]);
  };
  const float* column = shared.buffer + own.sub * kSub * kWideRow + own.channel;
  rows(shared.dA);
  __syncthreads();
  if (own.sub > 0)
#pragma unroll
    for (int i = 0; i < kSub; ++i)
      own.dq[i] = fmaf(column[i * kWideRow], power(own.c[i]), own.dq[i]);
  __syncthreads();
  rows(shared.dL);
  __syncthreads();
  if (own.sub > 0)
#pragma unroll
    for (int i = 0; i < kSub; ++i)
      own.row[i] = fmaf(column[i * kWideRow], power(own.c[i]), own.row[i]);
  __syncthreads();
  {
    float d[3][1][4] = {}, far[4] = {};
    for (const bool of_k : {false, true}) {
      const std::uint16_t *scores = of_k ? shared.dL : shared.dA, *x = of_k ? shared.k : shared.q,
                          *last = of_k ? shared.k_last : shared.q_last;
      add_block<true>(block(scores, 1, 0), rows_of_operand(x, 0), d[0][0]);
      add_block<true>(block(scores, 2, 0), rows_of_operand(x, 1), far);
      add_block<true>(block(scores, 3, 0), rows_of_operand(last, 0), far);
      add_block<true>(block(scores, 2, 1), rows_of_operand(x, 1), d[1][0]);
      add_block<true>(block(scores, 3, 1), rows_of_operand(last, 0), d[1][0]);
      add_block<true>(block(scores, 3, 2), rows_of_operand(x, 2), d[2][0]);
    }
    add_scaled(d[0], far, 1);
    for (int J = 0; J < 3; ++J) put_wide(shared.buffer, J * kSub, channel, d[J]);
  }
  __syncthreads();
  if (own.sub < 3)
#pragma unroll
    for (int i = 0; i < kSub; ++i)
      own.column[i] = fmaf(column[i * kWideRow], power(own.c[kSub - 1] - own.c[i]), own.column[i]);
}

}  // namespace parity::kda_kernel::hopper
