// The backward's state pass: the gradient dS of the state from the last chunk to the first, laid
// out and brought in like carry's. With the trail's dS at the chunk's end:
//   dV'^T = dO^T scores + dS^T writes          rounded to bf16
//   Y^T   = dV'^T inverse                      into the trail; dV = beta Y
//   dS^T  = dS^T diag(decay) + dO^T reads - (dV^T rounded to bf16) keys
#pragma once

#include "kernels/kda/hopper/carry.cuh"

namespace parity::kda_kernel::hopper {

template <int kGroups>
__device__ void consume_reverse(const Job& p, const Adjoint& a, const Block& block,
                                CarryShared<kGroups>& shared) {
  constexpr int kRow = Stage<kGroups>::kRow;
  const Tile& tile = block.tile;
  const int lane = threadIdx.x % 32, t = lane % 4, column = threadIdx.x / 32 * 16;
  const std::int64_t state = (std::int64_t{block.n} * p.HV + tile.hv) * p.K * p.V;
  float S[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) S[i] = 0;
  float(&low)[32] = reinterpret_cast<float(&)[32]>(S[0]);  // channels 0 to 63
  float(&high)[32] = reinterpret_cast<float(&)[32]>(S[32]);
  if (a.d_state != nullptr)
    each_of_state(p, tile.column + column,
                  [&](int i, std::int64_t at) { S[i] = a.d_state[state + at]; });
  const int chunks = chunks_of(block.sequence.length);
  for (int turn = 0; turn < chunks; ++turn) {
    const int j = chunks - 1 - turn;
    Stage<kGroups>& stage = shared.stages[turn % kStages<kGroups>];
    const std::uint32_t image = device::shared_address(stage.image);
    const std::int64_t token = std::int64_t{j} * kChunk;
    const int rows = static_cast<int>(min(std::int64_t{kChunk}, block.sequence.length - token));
    std::byte* trail = trail_of(p, block.sequence.first_chunk + j, tile.hv);
    std::uint32_t operand[32];
    pack_all(S, operand);
    put_trail<kChannels>(trail + kAdjoints, tile.column + column, operand);
    device::wait_for(device::shared_address(&shared.full[turn % kStages<kGroups>]),
                     turn / kStages<kGroups> & 1);

    const std::uint32_t place = device::shared_address(
        &stage.values[(lane / 16 * 8 + lane % 8) * kRow + column + lane / 8 % 2 * 8]);
    std::uint32_t d_o[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) device::load_transposed(d_o + 4 * i, place + i * 16 * kRow * 2);
    constexpr int kStep = 16 * device::kSwizzledRow;  // 16 rows of an operand
    float u[32];
    device::begin_products();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      device::multiply_async_rows(u, d_o + 4 * k, device::operand_of(image + kScores + k * kStep),
                                  k > 0);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      device::multiply_async_rows(u, operand + 4 * k,
                                  device::operand_of(image + kWrites + k * kStep), true);
    device::commit_products();
    device::wait_products<0>(u);
    std::uint32_t narrow[16];
    pack_all(u, narrow);
    device::begin_products();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      device::multiply_async_rows(u, narrow + 4 * k,
                                  device::operand_of(image + kInverse + k * kStep), k > 0);
    device::commit_products();
    const float* decay = reinterpret_cast<const float*>(stage.image + kDecay);
    if (p.defect != Defect::UndecayedAdjoint)
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float2 of = *reinterpret_cast<const float2*>(decay + 8 * i + 2 * t);
        S[4 * i] *= of.x, S[4 * i + 1] *= of.y;
        S[4 * i + 2] *= of.x, S[4 * i + 3] *= of.y;
      }
    device::wait_products<0>(u);
    pack_all(u, narrow);
    put_trail<kChunk>(trail + kSolved, tile.column + column, narrow);
    const float* beta = reinterpret_cast<const float*>(stage.image + kBeta);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 of = *reinterpret_cast<const float2*>(beta + 8 * i + 2 * t);
      u[4 * i] *= of.x, u[4 * i + 1] *= of.y;
      u[4 * i + 2] *= of.x, u[4 * i + 3] *= of.y;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) narrow[i] = device::pack_bf16(-u[2 * i], -u[2 * i + 1]);
    device::begin_products();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t reads = image + kReads + k * kStep, keys = image + kKeys + k * kStep;
      device::multiply_async_rows(low, d_o + 4 * k, device::operand_of(reads), true);
      device::multiply_async_rows(high, d_o + 4 * k, device::operand_of(reads + kPanel), true);
      device::multiply_async_rows(low, narrow + 4 * k, device::operand_of(keys), true);
      device::multiply_async_rows(high, narrow + 4 * k, device::operand_of(keys + kPanel), true);
    }
    device::commit_products();
    put_transposed<kRow>(place, u);
    __syncwarp();
    store_rows<kRow>(p, tile, token, rows, stage.values, column, a.d_v);
    device::wait_products<0>(S);
    device::fence_async();
    __syncwarp();
    if (lane == 0) device::arrive(device::shared_address(&shared.empty[turn % kStages<kGroups>]));
  }
  if (a.d_h0 != nullptr)
    each_of_state(p, tile.column + column,
                  [&](int i, std::int64_t at) { a.d_h0[state + at] = S[i]; });
}

template <int kGroups>
__global__ void __launch_bounds__(kCarryThreads<kGroups>, 1) reverse(Job p, Adjoint a) {
  extern __shared__ __align__(1024) unsigned char carry_memory[];
  auto& shared = *reinterpret_cast<CarryShared<kGroups>*>(carry_memory);
  const Block block = begin_pass(p, shared);
  if (threadIdx.x / 128 == kGroups) {
    device::give_registers<24>();
    if (threadIdx.x / 32 == kGroups * 4)
      produce<kGroups, true>(p, block.sequence, block.tile, a.d_o, shared);
  } else {
    device::take_registers<240>();
    consume_reverse(p, a, block, shared);
  }
}

}  // namespace parity::kda_kernel::hopper
