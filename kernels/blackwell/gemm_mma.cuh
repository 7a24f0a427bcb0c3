// Block-scaled GEMM of sm_120: mma.sync with operands and scales from registers.
//
//   grid    x: tiles of 64 columns (w), y: tiles of 128 rows (x)
//   block   warps 0 to 7 multiply, 32 x 32 of the tile each, accumulators in registers; one thread
//           of warp 8 copies
//   stages  three of 128 bytes of K: x, w and their 128x4 scales; a lane takes the four scale bytes
//           of a row (four blocks) as one word
#pragma once

#include "kernels/blackwell/scaled_gemm.cuh"

namespace parity::PARITY_MACHINE::blackwell {

namespace mma_sync {

struct Family {};

constexpr int kTileRows = 128, kTileColumns = 64;
constexpr int kWarps = 8, kThreads = 32 * (kWarps + 1);
constexpr int kWarpRows = 32, kWarpColumns = 32;  // of the tile: 4 x 2 warps
constexpr int kStages = 3;
constexpr int kBytesX = kTileRows * kStepBytes, kBytesW = kTileColumns * kStepBytes;
constexpr int kMostAtoms = 4;
constexpr int kScaleBytes = kMostAtoms * kAtomBytes;
constexpr int kStageBytes = kBytesX + kBytesW + 2 * kScaleBytes;
constexpr int kBarriers = kStages * kStageBytes;  // full and empty of each stage
constexpr std::size_t kSharedBytes = kBarriers + 16 * kStages;

struct Stage {
  std::uint32_t at = 0;
  __device__ std::uint32_t x() const { return at; }
  __device__ std::uint32_t w() const { return at + kBytesX; }
  __device__ std::uint32_t scales_x() const { return at + kBytesX + kBytesW; }
  __device__ std::uint32_t scales_w() const { return scales_x() + kScaleBytes; }
};
struct Shared {
  std::uint32_t base = 0;
  __device__ Stage stage(int s) const {
    return {base + static_cast<std::uint32_t>(s * kStageBytes)};
  }
  __device__ std::uint32_t full(int s) const {
    return base + static_cast<std::uint32_t>(kBarriers + 16 * s);
  }
  __device__ std::uint32_t empty(int s) const { return full(s) + 8; }
};

__device__ inline void copy(const ScaledGemm& p, int atoms_of_step, const TileMap& x,
                            const TileMap& w, Shared shared) {
  const int m = block_y() * kTileRows, n = block_x() * kTileColumns;
  for (int step = 0; step < steps_of(p); ++step) {
    const int s = step % kStages;
    if (p.mistake != Mistake::WaitEmpty)
      barrier_wait(shared.empty(s), (static_cast<std::uint32_t>(step / kStages) & 1U) ^ 1U);
    const Stage stage = shared.stage(s);
    const int atoms = least(atoms_of_step, p.atoms - step * atoms_of_step);
    const auto scale_bytes = static_cast<std::uint32_t>(atoms * kAtomBytes);
    barrier_expect(shared.full(s), kBytesX + kBytesW + 2 * scale_bytes);
    copy_tile(stage.x(), x, step * kStepBytes, m, shared.full(s));
    copy_tile(stage.w(), w, step * kStepBytes, n, shared.full(s));
    const auto from = [&](const std::uint8_t* scales, int row) {
      return scales + static_cast<std::size_t>(row / kAtomRows * p.atoms + step * atoms_of_step) *
                          kAtomBytes;
    };
    copy_bytes(stage.scales_x(), from(p.scales_x, m), scale_bytes, shared.full(s));
    copy_bytes(stage.scales_w(), from(p.scales_w, n), scale_bytes, shared.full(s));
  }
}

// Address of 16-byte piece `piece` of a row in a swizzled tile.
__device__ inline std::uint32_t swizzled(std::uint32_t tile, int row, int piece, int phase) {
  return tile + static_cast<std::uint32_t>(row * kStepBytes + (piece ^ (row + phase) % 8) * 16);
}
// The scales of 4 blocks of a row.
__device__ inline std::uint32_t scale_word(std::uint32_t scales, int row, int atom) {
  const std::uint32_t at = scales + static_cast<std::uint32_t>(atom * kAtomBytes + row % 32 * 16 +
                                                               row % kAtomRows / 32 * 4);
  return *reinterpret_cast<const std::uint32_t*>(shared_memory() +
                                                 (at - shared_address(shared_memory())));
}

// Where this warp's part of the tile begins.
__device__ inline int first_row() { return thread() / 32 / 2 * kWarpRows; }
__device__ inline int first_column() { return thread() / 32 % 2 * kWarpColumns; }

using Sums = float[kWarpRows / 16][kWarpColumns / 8][4];

// Instruction kAt of a step: 32 bytes of K. Format::kFp4, or Format::kX and Format::kW.
template <class Format, int kAt>
__device__ void instruction(const ScaledGemm& p, Stage stage, Sums& sums) {
  const int lane = thread() % 32, matrix = lane / 8, in_matrix = lane % 8;
  const int phase = p.mistake == Mistake::SwizzlePhase ? 1 : 0;
  constexpr int kOf = Format::kFp4 ? kAt : 0;
  const int of_w = p.mistake == Mistake::ScaleBlock && Format::kFp4 ? (kOf + 1) % 4 : kOf;
  std::uint32_t b[kWarpColumns / 8][2], scales_w[kWarpColumns / 8];
  for (int j = 0; j < kWarpColumns / 8; j += 2) {  // two tiles of 8 columns
    std::uint32_t both[4];
    const int n = first_column() + 8 * j + 8 * (matrix / 2) + in_matrix;
    load_matrices(both, swizzled(stage.w(), n, 2 * kAt + matrix % 2, phase));
    b[j][0] = both[0], b[j][1] = both[1], b[j + 1][0] = both[2], b[j + 1][1] = both[3];
  }
  // Thread id 0: lane 4 n has the scales of column n, lane 4 (m mod 8) + m / 8 those of row m.
  for (int j = 0; j < kWarpColumns / 8; ++j) {
    const int n = block_x() * kTileColumns % kAtomRows + first_column() + 8 * j + lane / 4;
    scales_w[j] = scale_word(stage.scales_w(), n, of_w);
    if (p.mistake == Mistake::ScaleBlock && !Format::kFp4)
      scales_w[j] = scales_w[j] >> 8 | scales_w[j] << 24;
  }
  for (int i = 0; i < kWarpRows / 16; ++i) {
    std::uint32_t a[4];
    const int m = first_row() + 16 * i;
    load_matrices(a,
                  swizzled(stage.x(), m + 8 * (matrix % 2) + in_matrix, 2 * kAt + matrix / 2, 0));
    const std::uint32_t scales_x = scale_word(stage.scales_x(), m + lane / 4 + 8 * (lane % 2), kOf);
    for (int j = 0; j < kWarpColumns / 8; ++j)
      if constexpr (Format::kFp4)
        mma_nvf4(sums[i][j], a, b[j], scales_x, scales_w[j]);
      else
        mma_mxf8<Format::kX, Format::kW, kAt>(sums[i][j], a, b[j], scales_x, scales_w[j]);
  }
}

// visit(sum, m, n) of what this thread holds: columns 2 t and 2 t + 1 of rows g and g + 8.
template <class Visit>
__device__ void for_sums(Sums& sums, const Visit& visit) {
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int i = 0; i < kWarpRows / 16; ++i)
    for (int j = 0; j < kWarpColumns / 8; ++j)
      for (int r = 0; r < 4; ++r)
        visit(sums[i][j][r], block_y() * kTileRows + first_row() + 16 * i + g + 8 * (r / 2),
              block_x() * kTileColumns + first_column() + 8 * j + 2 * t + r % 2);
}

template <class Format>
__device__ void multiply(const ScaledGemm& p, Shared shared) {
  Sums sums;
  for_sums(sums, [&](float& sum, int m, int n) { sum = start_of(p, m, n); });
  for (int step = 0; step < steps_of(p); ++step) {
    const int s = step % kStages, count = instructions_of(p, step);
    if (p.mistake != Mistake::WaitFull)
      barrier_wait(shared.full(s), static_cast<std::uint32_t>(step / kStages) & 1U);
    const Stage stage = shared.stage(s);
    instruction<Format, 0>(p, stage, sums);
    if (count > 1) instruction<Format, 1>(p, stage, sums);
    if (count > 2) instruction<Format, 2>(p, stage, sums);
    if (count > 3) instruction<Format, 3>(p, stage, sums);
    sync_warp();
    if (thread() % 32 == 0) barrier_arrive(shared.empty(s));
  }
  for_sums(sums, [&](float& sum, int m, int n) { store_result(p, m, n, sum); });
}

template <class Format>
__global__ void __launch_bounds__(kThreads)
    gemm(const __grid_constant__ TileMap x, const __grid_constant__ TileMap w, ScaledGemm p) {
  const Shared shared{shared_address(shared_memory())};
  if (thread() == 0) {
    for (int s = 0; s < kStages; ++s)
      barrier_init(shared.full(s), 1), barrier_init(shared.empty(s), kWarps);
    barrier_publish();
  }
  sync_threads();
  if (thread() / 32 < kWarps)
    multiply<Format>(p, shared);
  else if (thread() % 32 == 0)
    copy(p, Format::kFp4 ? 4 : 1, x, w, shared);
}

struct Nvfp4 {
  static constexpr bool kFp4 = true;
};
template <Dtype kFormatX, Dtype kFormatW>
struct Mxfp8 {
  static constexpr bool kFp4 = false;
  static constexpr Dtype kX = kFormatX, kW = kFormatW;
};

template <class Format>
void run(const Launch& l) {
  const Operands o = operands_of(l.problem);
  const ScaledGemm p = prepare<Family>(l);
  const std::int64_t rows =
      p.mistake == Mistake::TailRows ? o.M / kTileRows : ceil_div(o.M, kTileRows);
  reserve_shared(gemm<Format>, kSharedBytes);
  if (rows > 0)
    launch(l,
           {dim3(static_cast<unsigned int>(ceil_div(o.N, kTileColumns)),
                 static_cast<unsigned int>(rows)),
            kThreads, kSharedBytes},
           gemm<Format>, tile_map(l.in<void>("x"), o.M, o.row_bytes(), kTileRows),
           tile_map(l.in<void>("w"), o.N, o.row_bytes(), kTileColumns), p);
}

inline void forward_nvfp4(const Launch& l) { run<Nvfp4>(l); }
inline void forward_mxfp8(const Launch& l) {
  using enum Dtype;
  const std::string w = l.problem.options.get("w", name(l.problem.dtype));
  const bool x_e5m2 = l.problem.dtype == E5M2, w_e5m2 = w == "e5m2";
  if (x_e5m2)
    w_e5m2 ? run<Mxfp8<E5M2, E5M2>>(l) : run<Mxfp8<E5M2, E4M3>>(l);
  else
    w_e5m2 ? run<Mxfp8<E4M3, E5M2>>(l) : run<Mxfp8<E4M3, E4M3>>(l);
}

inline KernelDef nvfp4(std::string_view name, std::string_view what, std::string_view needs) {
  return kernel_of(
      {.name = name,
       .contract = "sm_120.mma.mxf4nvf4, model only",
       .nvfp4 = true,
       .refuses = [](const Case& c,
                     const Options&) { return refuses(c, "sm_120.mma.mxf4nvf4", "nvfp4"); },
       .forward = forward_nvfp4},
      what, needs);
}
inline KernelDef mxfp8(std::string_view name, std::string_view what, std::string_view needs) {
  return kernel_of(
      {.name = name,
       .contract = "sm_120.mma.mxf8f6f4, model only",
       .refuses = [](const Case& c,
                     const Options&) { return refuses(c, "sm_120.mma.mxf8f6f4", "mx"); },
       .forward = forward_mxfp8},
      what, needs);
}

}  // namespace mma_sync
}  // namespace parity::PARITY_MACHINE::blackwell
