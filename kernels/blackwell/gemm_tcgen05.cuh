// Block-scaled GEMM of sm_100 and sm_103: tcgen05.mma, accumulator and scales in tensor memory.
//
//   grid    x: tiles of 128 columns (w), y: tiles of 128 rows (x)
//   block   warp 0 copies, warp 1 multiplies (one thread each), warps 2 to 5 take 32 rows of the
//           accumulator each: they write c before and read the sums after
//   stages  three of 128 bytes of K: x, w and their scales by copies that arrive at full[s];
//           scales from there to tensor memory; what the unit has read is free by empty[s]
#pragma once

#include "kernels/blackwell/scaled_gemm.cuh"

namespace parity::PARITY_MACHINE::blackwell {

namespace tcgen05 {

struct Family {};

constexpr int kTile = 128, kThreads = 192, kReaders = 128;
constexpr int kStages = 3;
constexpr int kOperandBytes = kTile * kStepBytes;
constexpr int kMostAtoms = 4;  // of one step
constexpr int kScaleBytes = kMostAtoms * kAtomBytes;
constexpr int kStageBytes = 2 * (kOperandBytes + kScaleBytes);
// Behind the stages: full and empty of each, c written, sums done; then the address of the
// accumulator.
constexpr int kBarriers = kStages * kStageBytes;
constexpr int kSlot = kBarriers + 8 * (2 * kStages + 2);
constexpr std::size_t kSharedBytes = kSlot + 8;

// Columns of tensor memory: the accumulator, then scales of x and w for each stage.
constexpr int kColumns = 256, kScaleColumns = 4 * kMostAtoms;
constexpr std::uint32_t kScalesAt = kTile;

struct Shared {
  std::uint32_t base = 0;
  __device__ std::uint32_t x(int s) const {
    return base + static_cast<std::uint32_t>(s * kStageBytes);
  }
  __device__ std::uint32_t w(int s) const { return x(s) + kOperandBytes; }
  __device__ std::uint32_t scales_x(int s) const { return w(s) + kOperandBytes; }
  __device__ std::uint32_t scales_w(int s) const { return scales_x(s) + kScaleBytes; }
  __device__ std::uint32_t barrier(int i) const {
    return base + static_cast<std::uint32_t>(kBarriers + 8 * i);
  }
  __device__ std::uint32_t full(int s) const { return barrier(s); }
  __device__ std::uint32_t empty(int s) const { return barrier(kStages + s); }
  __device__ std::uint32_t ready() const { return barrier(2 * kStages); }
  __device__ std::uint32_t done() const { return barrier(2 * kStages + 1); }
};

// Matrix descriptors (PTX ISA 9.0, 9.7.16.4): address / 16 in bits 0 to 13, distance of groups of 8
// rows / 16 in 32 to 45, a one in 46, the swizzle in 61 to 63 (2: 128 bytes, 0: none).
__device__ inline std::uint64_t descriptor(std::uint32_t address, std::uint64_t group_bytes,
                                           std::uint64_t swizzle) {
  return (address >> 4 & 0x3FFFU) | group_bytes >> 4 << 32 | std::uint64_t{1} << 46 | swizzle << 61;
}
constexpr std::uint64_t kSwizzle128 = 2, kSwizzleNone = 0;

// Instruction descriptor of block-scaled kinds (9.7.16.4.2): which scale byte of w and x in 4 and
// 29, formats of x and w in 7 and 10, N / 8 in 17, scales are e8m0 in 23, M / 16 in 24.
struct Formats {
  std::uint32_t x = 0, w = 0;  // e2m1 of the fp4 kinds 1; e4m3 0, e5m2 1
};
template <Matrices kKind>
__device__ std::uint32_t instruction(Formats formats, std::uint32_t byte_x, std::uint32_t byte_w) {
  constexpr std::uint32_t kE8m0 = kKind == Matrices::Mxf8 ? 1 : 0;
  return byte_w << 4 | formats.x << 7 | formats.w << 10 | (kTile / 8U) << 17 | kE8m0 << 23 |
         (kTile / 16U) << 24 | byte_x << 29;
}

template <Matrices kKind>
__device__ void copy(const ScaledGemm& p, const TileMap& x, const TileMap& w, Shared shared) {
  constexpr int kAtoms = kKind == Matrices::Nvf4 ? 4 : 1;  // of a whole step
  const int m = block_y() * kTile, n = block_x() * kTile;
  for (int step = 0; step < steps_of(p); ++step) {
    const int s = step % kStages;
    const std::uint32_t turn = static_cast<std::uint32_t>(step / kStages);
    if (p.mistake != Mistake::WaitEmpty) barrier_wait(shared.empty(s), (turn & 1U) ^ 1U);
    const int atoms = least(kAtoms, p.atoms - step * kAtoms);
    const std::uint32_t scale_bytes = static_cast<std::uint32_t>(atoms * kAtomBytes);
    barrier_expect(shared.full(s), 2 * (kOperandBytes + scale_bytes));
    copy_tile(shared.x(s), x, step * kStepBytes, m, shared.full(s));
    copy_tile(shared.w(s), w, step * kStepBytes, n, shared.full(s));
    const auto from = [&](const std::uint8_t* scales, int tile) {
      return scales + static_cast<std::size_t>(tile * p.atoms + step * kAtoms) * kAtomBytes;
    };
    copy_bytes(shared.scales_x(s), from(p.scales_x, block_y()), scale_bytes, shared.full(s));
    copy_bytes(shared.scales_w(s), from(p.scales_w, block_x()), scale_bytes, shared.full(s));
  }
}

template <Matrices kKind>
__device__ void multiply(const ScaledGemm& p, Formats formats, Shared shared,
                         std::uint32_t tensor) {
  constexpr bool kFp4 = kKind == Matrices::Nvf4;
  if (p.c != nullptr) {
    barrier_wait(shared.ready(), 0);
    tensor_fence_after();
  }
  for (int step = 0; step < steps_of(p); ++step) {
    const int s = step % kStages, count = instructions_of(p, step);
    if (p.mistake != Mistake::WaitFull)
      barrier_wait(shared.full(s), static_cast<std::uint32_t>(step / kStages) & 1U);
    const std::uint32_t scales_x =
        tensor + kScalesAt + static_cast<std::uint32_t>(2 * s * kScaleColumns);
    const std::uint32_t scales_w = scales_x + kScaleColumns;
    for (int atom = 0; atom < (kFp4 ? count : 1); ++atom) {
      const auto at = static_cast<std::uint32_t>(atom);
      tensor_copy_scales(scales_x + 4 * at,
                         descriptor(shared.scales_x(s) + at * kAtomBytes, 128, kSwizzleNone));
      tensor_copy_scales(scales_w + 4 * at,
                         descriptor(shared.scales_w(s) + at * kAtomBytes, 128, kSwizzleNone));
    }
    const std::uint32_t phase = p.mistake == Mistake::SwizzlePhase ? 128 : 0;
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::uint32_t>(i);
      const std::uint32_t of_w = p.mistake == Mistake::ScaleBlock ? (at + 1) % 4 : at;
      tensor_mma<kKind>(
          tensor, descriptor(shared.x(s) + at * kInstructionBytes, 8 * kStepBytes, kSwizzle128),
          descriptor(shared.w(s) + at * kInstructionBytes + phase, 8 * kStepBytes, kSwizzle128),
          instruction<kKind>(formats, kFp4 ? 0 : at, kFp4 ? 0 : of_w),
          scales_x + (kFp4 ? 4 * at : 0), scales_w + (kFp4 ? 4 * of_w : 0),
          p.c != nullptr || step > 0 || i > 0);
    }
    tensor_commit(shared.empty(s));
  }
  tensor_commit(shared.done());
}

// Rows of this warp: c into the accumulator, and the sums out of it.
__device__ inline void read_sums(const ScaledGemm& p, Shared shared, std::uint32_t tensor) {
  const int quarter = thread() / 32 % 4;
  const int m = block_y() * kTile + 32 * quarter + thread() % 32, n = block_x() * kTile;
  const std::uint32_t rows = tensor + (static_cast<std::uint32_t>(32 * quarter) << 16);
  float sums[kTensorLoad];
  if (p.c != nullptr) {
    for (int column = 0; column < kTile; column += kTensorLoad) {
      for (int j = 0; j < kTensorLoad; ++j) sums[j] = start_of(p, m, n + column + j);
      tensor_store(rows + static_cast<std::uint32_t>(column), sums);
    }
    tensor_fence_before();
    barrier_arrive(shared.ready());
  }
  if (p.mistake != Mistake::WaitDone) barrier_wait(shared.done(), 0);
  tensor_fence_after();
  for (int column = 0; column < kTile; column += kTensorLoad) {
    if (n + column >= p.N) break;
    tensor_load(sums, rows + static_cast<std::uint32_t>(column));
    for (int j = 0; j < kTensorLoad; ++j) store_result(p, m, n + column + j, sums[j]);
  }
}

template <Matrices kKind>
__global__ void __launch_bounds__(kThreads)
    gemm(const __grid_constant__ TileMap x, const __grid_constant__ TileMap w, ScaledGemm p,
         Formats formats) {
  const Shared shared{shared_address(shared_memory())};
  const int warp = thread() / 32;
  if (thread() == 0) {
    for (int s = 0; s < kStages; ++s)
      barrier_init(shared.full(s), 1), barrier_init(shared.empty(s), 1);
    barrier_init(shared.ready(), kReaders);
    barrier_init(shared.done(), 1);
    barrier_publish();
  }
  if (warp == 1) tensor_allocate(shared.base + kSlot, kColumns);
  tensor_fence_before();
  sync_threads();
  tensor_fence_after();
  const std::uint32_t tensor = *reinterpret_cast<const std::uint32_t*>(shared_memory() + kSlot);
  if (warp == 0) {
    if (thread() == 0) copy<kKind>(p, x, w, shared);
  } else if (warp == 1) {
    if (thread() == 32) multiply<kKind>(p, formats, shared, tensor);
  } else {
    read_sums(p, shared, tensor);
  }
  sync_warp();
  tensor_fence_before();
  sync_threads();
  tensor_fence_after();
  if (warp == 1) tensor_free(tensor, kColumns);
}

template <Matrices kKind>
void forward(const Launch& l) {
  const Operands o = operands_of(l.problem);
  const ScaledGemm p = prepare<Family>(l);
  constexpr bool kFp4 = kKind == Matrices::Nvf4;
  const std::string w = l.problem.options.get("w", name(l.problem.dtype));
  const Formats formats =
      kFp4 ? Formats{1, 1}
           : Formats{l.problem.dtype == Dtype::E5M2 ? 1U : 0U, w == "e5m2" ? 1U : 0U};
  const std::int64_t rows = p.mistake == Mistake::TailRows ? o.M / kTile : ceil_div(o.M, kTile);
  reserve_shared(gemm<kKind>, kSharedBytes);
  if (rows > 0)
    launch(l,
           {dim3(static_cast<unsigned int>(ceil_div(o.N, kTile)), static_cast<unsigned int>(rows)),
            kThreads, kSharedBytes},
           gemm<kKind>, tile_map(l.in<void>("x"), o.M, o.row_bytes(), kTile),
           tile_map(l.in<void>("w"), o.N, o.row_bytes(), kTile), p, formats);
}

inline KernelDef nvfp4(std::string_view name, std::string_view what, std::string_view needs) {
  return kernel_of(
      {.name = name,
       .contract = "sm_100.tcgen05.mxf4nvf4, model only",
       .nvfp4 = true,
       .asynchronous = true,
       .refuses = [](const Case& c,
                     const Options&) { return refuses(c, "sm_100.tcgen05.mxf4nvf4", "nvfp4"); },
       .forward = forward<Matrices::Nvf4>},
      what, needs);
}
inline KernelDef mxfp8(std::string_view name, std::string_view what, std::string_view needs) {
  return kernel_of(
      {.name = name,
       .contract = "sm_100.tcgen05.mxf8f6f4, model only",
       .asynchronous = true,
       .refuses = [](const Case& c,
                     const Options&) { return refuses(c, "sm_100.tcgen05.mxf8f6f4", "mx"); },
       .forward = forward<Matrices::Mxf8>},
      what, needs);
}

}  // namespace tcgen05
}  // namespace parity::PARITY_MACHINE::blackwell
