// The second kernel: the state pass of one sequence and value head, 64 columns of v for each
// warpgroup. The state is kept transposed, 64 x 128 in f32 registers, so that what a product gives
// is, rounded to bf16, operand of the next without leaving the registers:
//   R^T = (V^T - S^T keys^T) diag(beta)   rounded to bf16
//   U^T = R^T inverse^T                   rounded to bf16: v' of kda.md §4
//   O^T = S^T reads^T + U^T scores^T
//   S^T = S^T diag(decay) + U^T writes^T
// One more warp brings images and values, two chunks ahead.
#pragma once

#include "kernels/kda/hopper/job.cuh"

namespace parity::kda_kernel::hopper {

constexpr int kColumns = 64;
template <int kGroups>
constexpr int kStages = kGroups == 1 ? 3 : 2;  // as many as fit

template <int kGroups>
struct Stage {
  static constexpr int kRow = kGroups * kColumns + 8;  // bf16 in a row of values
  std::byte image[(kImage + 1023) / 1024 * 1024];
  std::uint16_t values[kChunk * kRow];  // of v, then of o
};
template <int kGroups>
struct CarryShared {
  Stage<kGroups> stages[kStages<kGroups>];
  std::uint64_t full[kStages<kGroups>], empty[kStages<kGroups>];
};
template <int kGroups>
constexpr int kCarryThreads = (kGroups + 1) * 128;

static_assert(sizeof(Stage<1>) % 1024 == 0 && sizeof(Stage<2>) % 1024 == 0,
              "swizzled rows begin at multiples of 1024 bytes");

// The tile of v and o that a block has.
struct Tile {
  std::int64_t first;  // token
  int hv, column, columns;
};

__device__ inline std::int64_t row_of(const Job& p, const Tile& tile, std::int64_t token) {
  return ((tile.first + token) * p.HV + tile.hv) * p.V + tile.column;
}

// Brings image and rows of `tensor` of one chunk after another, from the first or from the last.
template <int kGroups, bool kReverse>
__device__ void produce(const Job& p, const Sequence& s, const Tile& tile,
                        const std::uint16_t* tensor, CarryShared<kGroups>& shared) {
  const int lane = threadIdx.x % 32;
  const bool aligned = p.V % 8 == 0;
  const int chunks = chunks_of(s.length);
  for (int turn = 0; turn < chunks; ++turn) {
    const int j = kReverse ? chunks - 1 - turn : turn;
    Stage<kGroups>& stage = shared.stages[turn % kStages<kGroups>];
    const std::uint32_t full = device::shared_address(&shared.full[turn % kStages<kGroups>]);
    if (turn >= kStages<kGroups>)
      device::wait_for(device::shared_address(&shared.empty[turn % kStages<kGroups>]),
                       (turn / kStages<kGroups> - 1) & 1);
    const std::int64_t token = std::int64_t{j} * kChunk;
    const int rows = static_cast<int>(min(std::int64_t{kChunk}, s.length - token));
    const bool whole = aligned && rows == kChunk;
    const std::uint32_t row_bytes = tile.columns * 2;
    if (!whole) {
      const int readable = p.defect == Defect::TailRows ? kChunk : rows;
      for (int i = 0; i < kChunk; ++i)
        for (int e = lane; e < kGroups * kColumns; e += 32)
          stage.values[i * Stage<kGroups>::kRow + e] =
              i < readable && e < tile.columns ? tensor[row_of(p, tile, token + i) + e] : 0;
      __syncwarp();
    }
    if (lane == 0) {
      device::arrive_expecting(full, kImage + (whole ? kChunk * row_bytes : 0));
      device::copy_in(device::shared_address(stage.image), image_of(p, s.first_chunk + j, tile.hv),
                      kImage, full);
    }
    __syncwarp();
    if (whole)
      for (int i = lane; i < kChunk; i += 32)
        device::copy_in(device::shared_address(&stage.values[i * Stage<kGroups>::kRow]),
                        tensor + row_of(p, tile, token + i), row_bytes, full);
  }
}

// The state of a warp's 16 columns: element 4 j + e is column g + 8 (e / 2), channel 8 j + 2 t + e
// % 2.
__device__ inline std::int64_t state_at(const Job& p, int v, int d) {
  return p.v_first ? std::int64_t{v} * p.K + d : std::int64_t{d} * p.V + v;
}
template <class Use>
__device__ void each_of_state(const Job& p, int column, const Use& use) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int v = column + g + i % 4 / 2 * 8, d = i / 4 * 8 + 2 * t + i % 2;
    if (v < p.V && d < p.K) use(i, state_at(p, v, d));
  }
}

template <int kCount>
__device__ void pack_all(const float (&from)[kCount], std::uint32_t (&to)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) to[i] = device::pack_bf16(from[2 * i], from[2 * i + 1]);
}

// Rows of o, say, from the stage that held v; a warp reads back what it wrote itself.
template <int kRow>
__device__ void store_rows(const Job& p, const Tile& tile, std::int64_t token, int rows,
                           const std::uint16_t* values, int column, std::uint16_t* tensor) {
  const int lane = threadIdx.x % 32;
  if (p.defect == Defect::DroppedTail) rows = rows / 16 * 16;
#pragma unroll
  for (int i = lane / 2; i < kChunk; i += 16) {
    const int first = column + lane % 2 * 8;
    if (i >= rows || first >= tile.columns) continue;
    const std::uint16_t* from = values + i * kRow + first;
    std::uint16_t* to = tensor + row_of(p, tile, token + i) + first;
    if (p.V % 8 == 0) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int e = 0; e < 8 && first + e < tile.columns; ++e) to[e] = from[e];
    }
  }
}

// Values of 16 columns and 64 tokens as they lie in registers into rows of tokens, at the place
// that load_transposed reads.
template <int kRow>
__device__ void put_transposed(std::uint32_t place, const float (&x)[32]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    device::store_transposed(place + i * 16 * kRow * 2, device::pack_bf16(x[8 * i], x[8 * i + 1]),
                             device::pack_bf16(x[8 * i + 2], x[8 * i + 3]),
                             device::pack_bf16(x[8 * i + 4], x[8 * i + 5]),
                             device::pack_bf16(x[8 * i + 6], x[8 * i + 7]));
}

// The same, packed, into a trail: rows of kWidth for each column of v.
template <int kWidth, int kCount>
__device__ void put_trail(std::byte* part, int column, const std::uint32_t (&packed)[kCount]) {
  static_assert(kCount * 4 == kWidth);
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    *reinterpret_cast<std::uint32_t*>(
        part + ((column + g + i % 2 * 8) * kWidth + i / 2 * 8 + 2 * t) * 2) = packed[i];
}

template <int kGroups, bool kSaves>
__device__ void consume(const Job& p, const Sequence& s, const Tile& tile, int n,
                        CarryShared<kGroups>& shared) {
  constexpr int kRow = Stage<kGroups>::kRow;
  const int lane = threadIdx.x % 32, t = lane % 4, column = threadIdx.x / 32 * 16;
  const std::int64_t state = (std::int64_t{n} * p.HV + tile.hv) * p.K * p.V;
  float S[64];
  std::uint32_t operand[32];
#pragma unroll
  for (int i = 0; i < 64; ++i) S[i] = 0;
  if (p.h0 != nullptr)
    each_of_state(p, tile.column + column,
                  [&](int i, std::int64_t at) { S[i] = p.h0[state + at]; });
  const auto store_state = [&] {
    each_of_state(p, tile.column + column,
                  [&](int i, std::int64_t at) { p.final_state[state + at] = S[i]; });
  };
  pack_all(S, operand);
  const int chunks = chunks_of(s.length);
  for (int j = 0; j < chunks; ++j) {
    Stage<kGroups>& stage = shared.stages[j % kStages<kGroups>];
    const std::uint32_t image = device::shared_address(stage.image);
    const int rows =
        static_cast<int>(min(std::int64_t{kChunk}, s.length - std::int64_t{j} * kChunk));
    if (p.defect == Defect::StateBeforeTail && rows < kChunk && p.final_state) store_state();
    device::wait_for(device::shared_address(&shared.full[j % kStages<kGroups>]),
                     j / kStages<kGroups> & 1);

    std::byte* trail = kSaves ? trail_of(p, s.first_chunk + j, tile.hv) : nullptr;
    if (kSaves) put_trail<kChannels>(trail + kStates, tile.column + column, operand);
    float u[32], o[32];
    device::begin_products();
#pragma unroll
    for (int k = 0; k < 8; ++k)
      device::multiply_async(u, operand + 4 * k,
                             device::operand_of(image + kKeys + k / 4 * kPanel + k % 4 * 32),
                             k > 0);
    device::commit_products();
    if (!kSaves)
#pragma unroll
      for (int k = 0; k < 8; ++k)
        device::multiply_async(o, operand + 4 * k,
                               device::operand_of(image + kReads + k / 4 * kPanel + k % 4 * 32),
                               k > 0);
    device::commit_products();

    // Matrices of 8 tokens by 8 columns, transposed: as u and o lie in registers.
    const std::uint32_t place = device::shared_address(
        &stage.values[(lane / 16 * 8 + lane % 8) * kRow + column + lane / 8 % 2 * 8]);
    std::uint32_t narrow[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) device::load_transposed(narrow + 4 * i, place + i * 16 * kRow * 2);
    device::wait_products<1>(u);
    const float* beta = reinterpret_cast<const float*>(stage.image + kBeta);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float2 of = *reinterpret_cast<const float2*>(beta + i / 2 * 8 + 2 * t);
      narrow[i] = device::pack_bf16(of.x * (device::low_bf16(narrow[i]) - u[2 * i]),
                                    of.y * (device::high_bf16(narrow[i]) - u[2 * i + 1]));
    }
    device::begin_products();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      device::multiply_async(u, narrow + 4 * k, device::operand_of(image + kInverse + k * 32),
                             k > 0);
    device::commit_products();
    const float* decay = reinterpret_cast<const float*>(stage.image + kDecay);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float2 of = *reinterpret_cast<const float2*>(decay + 8 * i + 2 * t);
      S[4 * i] *= of.x, S[4 * i + 1] *= of.y;
      S[4 * i + 2] *= of.x, S[4 * i + 3] *= of.y;
    }
    device::wait_products<0>(u);
    std::uint32_t written[16];
    pack_all(u, written);
    if (kSaves) put_trail<kChunk>(trail + kWritten, tile.column + column, written);
    device::begin_products();
    if (!kSaves)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        device::multiply_async(o, written + 4 * k, device::operand_of(image + kScores + k * 32),
                               true);
    device::commit_products();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      device::multiply_async(S, written + 4 * k, device::operand_of(image + kWrites + k * 32),
                             true);
    device::commit_products();
    if (!kSaves) {
      device::wait_products<1>(o);
      if (p.defect == Defect::TruncatedOutput)
#pragma unroll
        for (float& x : o) x = __uint_as_float(__float_as_uint(x) & 0xFFFF0000U);
      put_transposed<kRow>(place, o);
      __syncwarp();
      store_rows<kRow>(p, tile, std::int64_t{j} * kChunk,
                       rows + (p.defect == Defect::OneRowTooMany && rows < kChunk), stage.values,
                       column, p.o);
    }
    device::wait_products<0>(S);
    device::fence_async();
    __syncwarp();
    if (lane == 0) device::arrive(device::shared_address(&shared.empty[j % kStages<kGroups>]));
    if (p.defect == Defect::NarrowState)
#pragma unroll
      for (float& x : S) x = device::low_bf16(device::pack_bf16(x, 0));
    pack_all(S, operand);
  }
  if (p.final_state && (p.defect != Defect::StateBeforeTail || s.length % kChunk == 0))
    store_state();
}

// What both state passes begin with: the part of the problem that a block has, its barriers.
struct Block {
  int n;
  Sequence sequence;
  Tile tile;
};
template <int kGroups>
__device__ Block begin_pass(const Job& p, CarryShared<kGroups>& shared) {
  const int tiles = (p.V + kGroups * kColumns - 1) / (kGroups * kColumns);
  const int n = static_cast<int>(blockIdx.x) / tiles / p.HV;
  const Sequence s = sequence_of(p, n);
  const int column = static_cast<int>(blockIdx.x) % tiles * kGroups * kColumns;
  const Tile tile{s.first, static_cast<int>(blockIdx.x) / tiles % p.HV, column,
                  min(kGroups * kColumns, p.V - column)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages<kGroups>; ++i) {
      device::init_barrier(device::shared_address(&shared.full[i]), 1);
      device::init_barrier(device::shared_address(&shared.empty[i]), kGroups * 4);
    }
    device::fence_barrier_init();
  }
  // Columns beyond V stay zero: no row that is copied in reaches them, and o is zero there too.
  for (int i = threadIdx.x; i < kStages<kGroups> * kChunk * Stage<kGroups>::kRow; i += blockDim.x)
    shared.stages[i / (kChunk * Stage<kGroups>::kRow)].values[i % (kChunk * Stage<kGroups>::kRow)] =
        0;
  device::fence_async();
  __syncthreads();
  return {n, s, tile};
}

// kSaves: leaves a trail for the backward instead of o.
template <int kGroups, bool kSaves>
__global__ void __launch_bounds__(kCarryThreads<kGroups>, 1) carry(Job p) {
  extern __shared__ __align__(1024) unsigned char carry_memory[];
  auto& shared = *reinterpret_cast<CarryShared<kGroups>*>(carry_memory);
  const Block block = begin_pass(p, shared);
  if (threadIdx.x / 128 == kGroups) {
    device::give_registers<24>();
    if (threadIdx.x / 32 == kGroups * 4)
      produce<kGroups, false>(p, block.sequence, block.tile, p.v, shared);
  } else {
    device::take_registers<240>();
    consume<kGroups, kSaves>(p, block.sequence, block.tile, block.n, shared);
  }
}

}  // namespace parity::kda_kernel::hopper
