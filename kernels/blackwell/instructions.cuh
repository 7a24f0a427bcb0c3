// What Blackwell kernels take from the machine: matrix, conversion, tensor-memory,
// asynchronous-copy and barrier instructions, each a thin function. Kernels lie in
// parity::PARITY_MACHINE and know these names only: compiled by nvcc they are the instructions
// below, compiled for a CPU those of kernels/emulated/instructions.hpp, whose matrix unit is the
// software tensor core.
//
// Addresses of shared and of tensor memory are 32-bit numbers; tensor memory has lane << 16 |
// column (PTX ISA 9.0, 9.7.16). Waits are on phases of mbarriers: `parity` is that of the phase
// waited for.
#pragma once

#ifndef __CUDACC__
#include "kernels/emulated/instructions.hpp"
#else

#include <cuda.h>

#include "kernels/device/launch.cuh"

#define PARITY_MACHINE device

namespace parity::device {

// ---- threads

__device__ inline int thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_x() { return static_cast<int>(blockIdx.x); }
__device__ inline int block_y() { return static_cast<int>(blockIdx.y); }
__device__ inline int grid_x() { return static_cast<int>(gridDim.x); }
__device__ inline void sync_threads() { __syncthreads(); }
__device__ inline void sync_warp() { __syncwarp(); }
__device__ inline float shuffle_xor(float x, int apart) {
  return __shfl_xor_sync(0xFFFFFFFFU, x, apart);
}

// Dynamic shared memory, aligned to 1024 bytes.
__device__ inline std::uint8_t* shared_memory() {
  extern __shared__ __align__(1024) std::uint8_t bytes[];
  return bytes;
}
__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline std::uint32_t bits_of(float x) { return __float_as_uint(x); }
__device__ inline float float_of(std::uint32_t bits) { return __uint_as_float(bits); }

__device__ inline std::uint32_t warp_max(std::uint32_t x) {
  return __reduce_max_sync(0xFFFFFFFFU, x);
}
__device__ inline void atomic_max(std::uint32_t* at, std::uint32_t x) { atomicMax(at, x); }

// One IEEE operation each, never contracted.
__device__ inline float add(float x, float y) { return __fadd_rn(x, y); }
__device__ inline float multiply(float x, float y) { return __fmul_rn(x, y); }
__device__ inline float divide(float x, float y) { return __fdiv_rn(x, y); }

// ---- conversions: to nearest even, saturating; NaN is 0x7F as e4m3 and 7 as e2m1

__device__ inline std::uint32_t to_e4m3(float x) {
  std::uint16_t pair = 0;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(x));
  return pair & 0xFFU;
}
__device__ inline float from_e4m3(std::uint32_t code) {
  float x = 0;
  asm("{\n.reg .b32 both;\n.reg .b16 low, high;\n"
      "cvt.rn.f16x2.e4m3x2 both, %1;\nmov.b32 {low, high}, both;\ncvt.f32.f16 %0, low;\n}"
      : "=f"(x)
      : "h"(static_cast<std::uint16_t>(code)));
  return x;
}
// Two codes of one byte.
__device__ inline std::uint32_t to_e2m1x2(float high, float low) {
  std::uint32_t byte = 0;
  asm("{\n.reg .b8 pair;\ncvt.rn.satfinite.e2m1x2.f32 pair, %1, %2;\n"
      "mov.b32 %0, {pair, pair, pair, pair};\n}"
      : "=r"(byte)
      : "f"(high), "f"(low));
  return byte & 0xFFU;
}
__device__ inline void from_e2m1x2(std::uint32_t byte, float& high, float& low) {
  asm("{\n.reg .b8 pair, x, y, z;\n.reg .b32 both;\n.reg .b16 h, l;\n"
      "mov.b32 {pair, x, y, z}, %2;\ncvt.rn.f16x2.e2m1x2 both, pair;\n"
      "mov.b32 {l, h}, both;\ncvt.f32.f16 %0, h;\ncvt.f32.f16 %1, l;\n}"
      : "=f"(high), "=f"(low)
      : "r"(byte));
}

// ---- barriers

__device__ inline void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Initialised barriers are seen by copies and the tensor core.
__device__ inline void barrier_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and the phase waits for that many bytes of copies too.
__device__ inline void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// ---- asynchronous copies to shared memory

using TileMap = CUtensorMap;

__device__ inline void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes,
                                  std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// The box of the map that begins at byte x of row y; outside of the matrix it is zero.
__device__ inline void copy_tile(std::uint32_t to, const TileMap& map, int x, int y,
                                 std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

inline void copy_on_device(const Launch& l, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(l)), "copy");
}

// Lets a kernel have that much dynamic shared memory.
template <class... Parameters>
void reserve_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "shared memory");
}

// Rows of `row_bytes` bytes in boxes of 128 bytes and box_rows rows, whose 16-byte pieces are
// exchanged by row mod 8 (128-byte swizzle).
inline TileMap tile_map(const void* matrix, std::int64_t rows, std::int64_t row_bytes,
                        int box_rows) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &found),
        "cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess) throw DeviceError("no cuTensorMapEncodeTiled");
  TileMap map;
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(row_bytes), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t box[2] = {128, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(matrix), extents, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw DeviceError("cuTensorMapEncodeTiled: error " + std::to_string(static_cast<int>(result)));
  return map;
}

// ---- registers of a warp

// Four 8x8 matrices of 16 bits: lane l gives the row of matrix l / 8, row l mod 8.
__device__ inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// d += a b, m16n8k16 of bf16.
__device__ inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// d += (a scales) (b scales), m16n8k64 of e2m1 with four e4m3 scales a row.
__device__ inline void mma_nvf4(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2], std::uint32_t scales_a,
                                std::uint32_t scales_b) {
  asm volatile(
      "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32"
      ".ue4m3 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {0,0}, {%11}, {0,0};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales_a),
        "r"(scales_b));
}

// m16n8k32 of e4m3 or e5m2, one e8m0 scale a row: byte kByte of the register.
#define PARITY_MMA_MXF8(a_type, b_type)                                                          \
  asm volatile(                                                                                  \
      "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32." a_type   \
      "." b_type                                                                                 \
      ".f32.ue8m0 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {%12,0}, {%11}, " \
      "{%12,0};"                                                                                 \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(scales_a),         \
        "r"(scales_b), "n"(kByte))
template <Dtype kA, Dtype kB, int kByte>
__device__ void mma_mxf8(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                         std::uint32_t scales_a, std::uint32_t scales_b) {
  if constexpr (kA == Dtype::E4M3 && kB == Dtype::E4M3)
    PARITY_MMA_MXF8("e4m3", "e4m3");
  else if constexpr (kA == Dtype::E4M3)
    PARITY_MMA_MXF8("e4m3", "e5m2");
  else if constexpr (kB == Dtype::E4M3)
    PARITY_MMA_MXF8("e5m2", "e4m3");
  else
    PARITY_MMA_MXF8("e5m2", "e5m2");
}
#undef PARITY_MMA_MXF8

// ---- tensor memory and the matrix unit that reads it

// A power of two of columns; the address is written to shared memory. By all lanes of one warp.
__device__ inline void tensor_allocate(std::uint32_t to, int columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to),
               "r"(columns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}
__device__ inline void tensor_free(std::uint32_t at, int columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns));
}
// 32 rows of 16 bytes to 4 columns of lanes 0 to 31, and the same to the other three quarters.
__device__ inline void tensor_copy_scales(std::uint32_t to, std::uint64_t from) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}

enum class Matrices { Nvf4, Mxf8 };
// d = (a scales) (b scales) + (accumulates ? d : 0), by one thread.
template <Matrices kKind>
__device__ void tensor_mma(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                           std::uint32_t instruction, std::uint32_t scales_a,
                           std::uint32_t scales_b, bool accumulates) {
  if constexpr (kKind == Matrices::Nvf4)
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %6, 0;\n"
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%0], %1, %2, %3, [%4], [%5], "
        "p;\n}" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(scales_a), "r"(scales_b),
        "r"(static_cast<std::uint32_t>(accumulates))
        : "memory");
  else
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.u32 p, %6, 0;\n"
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], "
        "p;\n}" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(scales_a), "r"(scales_b),
        "r"(static_cast<std::uint32_t>(accumulates))
        : "memory");
}
// Arrives at the barrier when everything that this thread gave to the unit is done.
__device__ inline void tensor_commit(std::uint32_t barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
      : "memory");
}
__device__ inline void tensor_fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ inline void tensor_fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

inline constexpr int kTensorLoad = 8;  // columns of one load or store
// Columns [column, column + 8) of the warp's own 32 lanes; complete on return.
__device__ inline void tensor_load(float (&x)[kTensorLoad], std::uint32_t at) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]),
                 "=f"(x[7])
               : "r"(at)
               : "memory");
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}
__device__ inline void tensor_store(std::uint32_t at, const float (&x)[kTensorLoad]) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%8], {%0,%1,%2,%3,%4,%5,%6,%7};" ::"f"(x[0]),
               "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]), "r"(at)
               : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

}  // namespace parity::device

#endif  // __CUDACC__
