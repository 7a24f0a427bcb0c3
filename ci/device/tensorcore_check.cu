// The software tensor core against silicon: Hopper's mma.sync and wgmma, dense and sparse, operands
// from registers and from shared memory, on the probes of references/tensorcore/probes.hpp, which
// the device and this machine draw for themselves. Every output is compared bit for bit.
//
//   usage: tensorcore_check [outputs of an instruction, default 10500000] [part of a name]
//
// Rows of operands are 16 or 32 bytes (b of a sparse instruction 64), whatever their type, and lie
// in registers by bytes: lane 4 g + t, register r has bytes [4 t + 16 (r / 2), + 4) of row g + 8 (r
// mod 2) of a, and [4 t + 16 r, + 4) of row g of b (PTX ISA 9.0, 9.7.14.5, 9.7.15.5).
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <string>
#include <thread>
#include <vector>

#include "references/tensorcore/gemm.hpp"
#include "references/tensorcore/probes.hpp"

namespace parity::tensorcore {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

__host__ __device__ constexpr Fields fields_of(Dtype d) {
  switch (d) {
    case Dtype::BF16:
      return {8, 7, true};
    case Dtype::F16:
      return {5, 10, true};
    case Dtype::E4M3:
      return {4, 3, false};
    case Dtype::E5M2:
      return {5, 2, true};
    default:
      return {8, 23, true};
  }
}
__host__ __device__ constexpr int bytes_of(Dtype d) {
  return d == Dtype::F32 ? 4 : d == Dtype::BF16 || d == Dtype::F16 ? 2 : 1;
}

enum class Form { Mma, MmaSparse, WgmmaShared, WgmmaRegisters, WgmmaSparse };

// One instruction: types (F32: tf32), bytes of a row of a, columns.
template <Form kFormT, Dtype kAT, Dtype kBT, Dtype kDT, int kRowBytesT, int kNT>
struct Spec {
  static constexpr Form kForm = kFormT;
  static constexpr Dtype kA = kAT, kB = kBT, kD = kDT;
  static constexpr bool kSparse = kForm == Form::MmaSparse || kForm == Form::WgmmaSparse;
  static constexpr bool kWgmma = kForm != Form::Mma && kForm != Form::MmaSparse;
  static constexpr int kRowBytes = kRowBytesT, kRowBytesB = kSparse ? 2 * kRowBytes : kRowBytes;
  static constexpr int kM = kWgmma ? 64 : 16, kN = kNT;
  static constexpr int kK = kRowBytes / bytes_of(kA);  // products of one output
  static constexpr int kThreads = kWgmma ? 128 : 32;
  static constexpr int kWords = kD == Dtype::F32 ? kN / 2 : kN / 4;  // of the result, a thread
};

// What a tile's sparse a keeps of four elements (of two for tf32): the nibble of the metadata.
__host__ __device__ constexpr std::uint32_t pattern_of(Dtype a, std::uint32_t tile) {
  constexpr std::uint32_t kOfFour[6] = {0x4, 0x8, 0xC, 0x9, 0xD, 0xE};
  const std::uint32_t turn = tile / kRecipes;
  return a == Dtype::F32 ? (turn % 2 == 0 ? 0x4U : 0xEU) : kOfFour[turn % 6];
}
// Element of b that meets element k of a sparse a.
constexpr std::uint32_t place_of(Dtype a, std::uint32_t pattern, std::uint32_t k) {
  if (a == Dtype::F32) return 2 * k + (pattern == 0xE ? 1U : 0U);
  return k / 2 * 4 + (pattern >> (k % 2 * 2) & 3U);
}

// ---- the instructions

#define R4 "{%0,%1,%2,%3}"
#define R2 "{%0,%1}"
#define D4 "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
#define D2 "+r"(d[0]), "+r"(d[1])

#define MMA_4_2(text)                                                       \
  asm volatile("mma.sync.aligned." text R4 ",{%4,%5,%6,%7},{%8,%9}," R4 ";" \
               : D4                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_2_1(text)                                              \
  asm volatile("mma.sync.aligned." text R4 ",{%4,%5},{%6}," R4 ";" \
               : D4                                                \
               : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#define MMA_H_4_2(text)                                                     \
  asm volatile("mma.sync.aligned." text R2 ",{%2,%3,%4,%5},{%6,%7}," R2 ";" \
               : D2                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_H_2_1(text)                                            \
  asm volatile("mma.sync.aligned." text R2 ",{%2,%3},{%4}," R2 ";" \
               : D2                                                \
               : "r"(a[0]), "r"(a[1]), "r"(b[0]))
#define SPARSE(text)                                                                          \
  asm volatile("mma.sp::ordered_metadata.sync.aligned." text R4                               \
               ",{%4,%5,%6,%7},{%8,%9,%10,%11}," R4 ",%12,0x0;"                               \
               : D4                                                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), \
                 "r"(b[3]), "r"(metadata))
#define SPARSE_H(text)                                                                             \
  asm volatile("mma.sp::ordered_metadata.sync.aligned." text R2 ",{%2,%3,%4,%5},{%6,%7,%8,%9}," R2 \
               ",%10,0x0;"                                                                         \
               : D2                                                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]),      \
                 "r"(b[3]), "r"(metadata))

template <class S>
__device__ void mma(std::uint32_t (&d)[S::kWords], const std::uint32_t* a, const std::uint32_t* b,
                    std::uint32_t metadata) {
  using enum Dtype;
  if constexpr (S::kForm == Form::Mma && S::kD == F32) {
    if constexpr (S::kA == BF16 && S::kK == 16) MMA_4_2("m16n8k16.row.col.f32.bf16.bf16.f32 ");
    if constexpr (S::kA == BF16 && S::kK == 8) MMA_2_1("m16n8k8.row.col.f32.bf16.bf16.f32 ");
    if constexpr (S::kA == F16 && S::kK == 16) MMA_4_2("m16n8k16.row.col.f32.f16.f16.f32 ");
    if constexpr (S::kA == F16 && S::kK == 8) MMA_2_1("m16n8k8.row.col.f32.f16.f16.f32 ");
    if constexpr (S::kA == F32 && S::kK == 8) MMA_4_2("m16n8k8.row.col.f32.tf32.tf32.f32 ");
    if constexpr (S::kA == F32 && S::kK == 4) MMA_2_1("m16n8k4.row.col.f32.tf32.tf32.f32 ");
    if constexpr (S::kA == E4M3 && S::kB == E4M3) MMA_4_2("m16n8k32.row.col.f32.e4m3.e4m3.f32 ");
    if constexpr (S::kA == E4M3 && S::kB == E5M2) MMA_4_2("m16n8k32.row.col.f32.e4m3.e5m2.f32 ");
    if constexpr (S::kA == E5M2 && S::kB == E4M3) MMA_4_2("m16n8k32.row.col.f32.e5m2.e4m3.f32 ");
    if constexpr (S::kA == E5M2 && S::kB == E5M2) MMA_4_2("m16n8k32.row.col.f32.e5m2.e5m2.f32 ");
  } else if constexpr (S::kForm == Form::Mma) {
    if constexpr (S::kA == F16 && S::kK == 16) MMA_H_4_2("m16n8k16.row.col.f16.f16.f16.f16 ");
    if constexpr (S::kA == F16 && S::kK == 8) MMA_H_2_1("m16n8k8.row.col.f16.f16.f16.f16 ");
    if constexpr (S::kA == E4M3) MMA_H_4_2("m16n8k32.row.col.f16.e4m3.e4m3.f16 ");
    if constexpr (S::kA == E5M2) MMA_H_4_2("m16n8k32.row.col.f16.e5m2.e5m2.f16 ");
  } else if constexpr (S::kD == F32) {
    if constexpr (S::kA == BF16) SPARSE("m16n8k32.row.col.f32.bf16.bf16.f32 ");
    if constexpr (S::kA == F16) SPARSE("m16n8k32.row.col.f32.f16.f16.f32 ");
    if constexpr (S::kA == F32) SPARSE("m16n8k16.row.col.f32.tf32.tf32.f32 ");
    if constexpr (S::kA == E4M3 && S::kB == E4M3) SPARSE("m16n8k64.row.col.f32.e4m3.e4m3.f32 ");
    if constexpr (S::kA == E4M3 && S::kB == E5M2) SPARSE("m16n8k64.row.col.f32.e4m3.e5m2.f32 ");
    if constexpr (S::kA == E5M2 && S::kB == E4M3) SPARSE("m16n8k64.row.col.f32.e5m2.e4m3.f32 ");
    if constexpr (S::kA == E5M2 && S::kB == E5M2) SPARSE("m16n8k64.row.col.f32.e5m2.e5m2.f32 ");
  } else {
    if constexpr (S::kA == F16) SPARSE_H("m16n8k32.row.col.f16.f16.f16.f16 ");
  }
}

#define W2 "{%0,%1}"
#define W4 R4
#define W16 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define W32                                                                                      \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%" \
  "25,"                                                                                          \
  "%26,%27,%28,%29,%30,%31}"
#define Q4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define Q16(i) Q4(i), Q4(i + 4), Q4(i + 8), Q4(i + 12)
#define V2 D2
#define V4 Q4(0)
#define V16 Q16(0)
#define V32 Q16(0), Q16(16)

// `tail`: immediates that follow scale-d: signs of a and b, and for 16 bits whether they are
// transposed.
#define SHARED_(count, p1, p2, text, tail)                                                      \
  asm volatile("wgmma.mma_async.sync.aligned." text W##count ", %" p1 ", %" p2 ", 1, " tail ";" \
               : V##count                                                                       \
               : "l"(a), "l"(b))
#define REGISTERS_(count, q, pb, text, tail)                                                  \
  asm volatile("wgmma.mma_async.sync.aligned." text W##count ", " q ", %" pb ", 1, " tail ";" \
               : V##count                                                                     \
               : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(b))
#define SP_(count, p1, p2, p3, text, tail)                                                 \
  asm volatile("wgmma.mma_async.sp.sync.aligned." text W##count ", %" p1 ", %" p2 ", %" p3 \
                                                                ", 0, 1, " tail ";"        \
               : V##count                                                                  \
               : "l"(a), "l"(b), "r"(metadata))
#define SHARED_2(text, tail) SHARED_(2, "2", "3", text, tail)
#define SHARED_4(text, tail) SHARED_(4, "4", "5", text, tail)
#define SHARED_16(text, tail) SHARED_(16, "16", "17", text, tail)
#define SHARED_32(text, tail) SHARED_(32, "32", "33", text, tail)
#define REGISTERS_2(text, tail) REGISTERS_(2, "{%2,%3,%4,%5}", "6", text, tail)
#define REGISTERS_4(text, tail) REGISTERS_(4, "{%4,%5,%6,%7}", "8", text, tail)
#define REGISTERS_16(text, tail) REGISTERS_(16, "{%16,%17,%18,%19}", "20", text, tail)
#define REGISTERS_32(text, tail) REGISTERS_(32, "{%32,%33,%34,%35}", "36", text, tail)
#define SP_2(text, tail) SP_(2, "2", "3", "4", text, tail)
#define SP_4(text, tail) SP_(4, "4", "5", "6", text, tail)
#define SP_16(text, tail) SP_(16, "16", "17", "18", text, tail)
#define SP_32(text, tail) SP_(32, "32", "33", "34", text, tail)

// Both widths: m64n8 and m64n64. f16 results take half as many registers.
#define BOTH(with, k, types, tail)            \
  if constexpr (S::kN == 8)                   \
    with##_4("m64n8k" k "." types " ", tail); \
  else                                        \
    with##_32("m64n64k" k "." types " ", tail)
#define BOTH_H(with, k, types, tail)          \
  if constexpr (S::kN == 8)                   \
    with##_2("m64n8k" k "." types " ", tail); \
  else                                        \
    with##_16("m64n64k" k "." types " ", tail)

#define OF_TYPES(with, k16, k8, k32, half_tail)     \
  if constexpr (S::kD == F32) {                     \
    if constexpr (S::kA == BF16) {                  \
      BOTH(with, k16, "f32.bf16.bf16", half_tail);  \
    }                                               \
    if constexpr (S::kA == F16) {                   \
      BOTH(with, k16, "f32.f16.f16", half_tail);    \
    }                                               \
    if constexpr (S::kA == F32) {                   \
      BOTH(with, k8, "f32.tf32.tf32", "1, 1");      \
    }                                               \
    if constexpr (S::kA == E4M3 && S::kB == E4M3) { \
      BOTH(with, k32, "f32.e4m3.e4m3", "1, 1");     \
    }                                               \
    if constexpr (S::kA == E4M3 && S::kB == E5M2) { \
      BOTH(with, k32, "f32.e4m3.e5m2", "1, 1");     \
    }                                               \
    if constexpr (S::kA == E5M2 && S::kB == E4M3) { \
      BOTH(with, k32, "f32.e5m2.e4m3", "1, 1");     \
    }                                               \
    if constexpr (S::kA == E5M2 && S::kB == E5M2) { \
      BOTH(with, k32, "f32.e5m2.e5m2", "1, 1");     \
    }                                               \
  } else {                                          \
    if constexpr (S::kA == F16) {                   \
      BOTH_H(with, k16, "f16.f16.f16", half_tail);  \
    }                                               \
    if constexpr (S::kA == E4M3) {                  \
      BOTH_H(with, k32, "f16.e4m3.e4m3", "1, 1");   \
    }                                               \
    if constexpr (S::kA == E5M2) {                  \
      BOTH_H(with, k32, "f16.e5m2.e5m2", "1, 1");   \
    }                                               \
  }

template <class S>
__device__ void wgmma(std::uint32_t (&d)[S::kWords], const std::uint32_t* r, std::uint64_t a,
                      std::uint64_t b, std::uint32_t metadata) {
  using enum Dtype;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 0;" ::: "memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if constexpr (S::kForm == Form::WgmmaShared) {
    OF_TYPES(SHARED, "16", "8", "32", "1, 1, 0, 0")
  } else if constexpr (S::kForm == Form::WgmmaRegisters) {
    OF_TYPES(REGISTERS, "16", "8", "32", "1, 1, 0")
  } else {
    OF_TYPES(SP, "32", "16", "64", "1, 1, 0, 0")
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// ---- one tile a block at a time

// Where byte `byte` of a row lies: core matrices of 8 rows and 16 bytes, those of 8 rows together.
template <int kRowBytes>
__device__ int placed(int row, int byte) {
  return row / 8 * 8 * kRowBytes + byte / 16 * 128 + row % 8 * 16 + byte % 16;
}
// Shared-memory descriptor without swizzle: distances of core matrices along K and along rows.
template <int kRowBytes>
__device__ std::uint64_t descriptor(const std::uint8_t* p) {
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(p));
  return address >> 4 & 0x3FFF | std::uint64_t{128 >> 4} << 16 |
         std::uint64_t{(8 * kRowBytes) >> 4} << 32;
}

template <int kRowBytes>
__device__ void draw_rows(std::uint8_t* to, Dtype type, std::uint32_t seed, std::uint32_t tile,
                          std::uint32_t operand, int rows) {
  const int size = bytes_of(type), count = kRowBytes / size;
  for (int i = threadIdx.x; i < rows * count; i += blockDim.x) {
    const int row = i / count, k = i % count;
    const std::uint32_t code =
        operand_of(fields_of(type), seed, tile, operand, static_cast<std::uint32_t>(row),
                   static_cast<std::uint32_t>(k));
    for (int byte = 0; byte < size; ++byte)
      to[placed<kRowBytes>(row, k * size + byte)] = static_cast<std::uint8_t>(code >> (8 * byte));
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads)
    run_tiles(std::uint32_t seed, std::uint32_t tiles, std::uint8_t* results) {
  __shared__ alignas(128) std::uint8_t a[S::kM * S::kRowBytes], b[S::kN * S::kRowBytesB];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  constexpr Fields kOfD = fields_of(S::kD);
  constexpr int kBytesD = S::kD == Dtype::F32 ? 4 : 2;
  for (std::uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    __syncthreads();
    draw_rows<S::kRowBytes>(a, S::kA, seed, tile, 0, S::kM);
    draw_rows<S::kRowBytesB>(b, S::kB, seed, tile, 1, S::kN);
    __syncthreads();
    // Column and row of value v of this thread.
    const auto row_of = [&](int v) { return 16 * warp + g + v / 2 % 2 * 8; };
    const auto column_of = [&](int v) { return v / 4 * 8 + 2 * t + v % 2; };
    std::uint32_t d[S::kWords] = {};
    for (int v = 0; v < S::kN / 2; ++v) {
      const std::uint32_t c =
          accumulator_of(kOfD, seed, tile, static_cast<std::uint32_t>(row_of(v)),
                         static_cast<std::uint32_t>(column_of(v)));
      if constexpr (kBytesD == 4)
        d[v] = c;
      else
        d[v / 2] |= c << (v % 2 * 16);
    }
    std::uint32_t registers[4] = {}, of_b[4] = {};
    for (int r = 0; r < S::kRowBytes / 8; ++r)
      std::memcpy(&registers[r],
                  a + placed<S::kRowBytes>(16 * warp + g + r % 2 * 8, 4 * t + r / 2 * 16), 4);
    const std::uint32_t metadata = 0x11111111U * pattern_of(S::kA, tile);
    if constexpr (S::kWgmma) {
      wgmma<S>(d, registers, descriptor<S::kRowBytes>(a), descriptor<S::kRowBytesB>(b), metadata);
    } else {
      for (int r = 0; r < S::kRowBytesB / 16; ++r)
        std::memcpy(&of_b[r], b + placed<S::kRowBytesB>(g, 4 * t + 16 * r), 4);
      mma<S>(d, registers, of_b, metadata);
    }
    std::uint8_t* const to = results + std::size_t{tile} * S::kM * S::kN * kBytesD;
    for (int v = 0; v < S::kN / 2; ++v) {
      const std::size_t at = static_cast<std::size_t>(row_of(v) * S::kN + column_of(v));
      if constexpr (kBytesD == 4)
        reinterpret_cast<std::uint32_t*>(to)[at] = d[v];
      else
        reinterpret_cast<std::uint16_t*>(to)[at] =
            static_cast<std::uint16_t>(d[v / 2] >> (v % 2 * 16));
    }
  }
}

// ---- the same by the model

struct Counts {
  std::atomic<std::uint64_t> compared{0}, differing{0}, special{0}, by_recipe[kRecipes] = {};
  std::atomic<int> shown{0};
};

void put(std::vector<std::byte>& to, Dtype type, std::uint32_t code) {
  for (int byte = 0; byte < bytes_of(type); ++byte)
    to.push_back(static_cast<std::byte>(code >> (8 * byte)));
}

template <class S>
void show(std::uint32_t seed, std::uint32_t tile, int m, int n, std::uint32_t c, std::uint32_t got,
          std::uint32_t want, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const auto hex = [](const std::vector<std::byte>& rows, int row) {
    std::string text;
    constexpr int kBytes = S::kRowBytes;
    for (int i = 0; i < kBytes; ++i) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x",
                    std::to_integer<unsigned>(rows[static_cast<std::size_t>(row * kBytes + i)]));
      text += two;
    }
    return text;
  };
  std::printf(
      "    differs: %s seed %u tile %u (%d, %d): c %08x hardware %08x model %08x a %s b %s\n",
      kRecipeNames[tile % kRecipes], seed, tile, m, n, c, got, want, hex(a, m).c_str(),
      hex(b, n).c_str());
}

template <class S>
void judge_tile(const Unit& unit, std::uint32_t seed, std::uint32_t tile,
                const std::uint8_t* results, Counts& counts) {
  constexpr int kM = S::kM, kN = S::kN, kK = S::kK;
  std::vector<std::byte> a, b;
  std::vector<float> c;
  std::vector<std::uint32_t> starts;
  const auto u = [](int i) { return static_cast<std::uint32_t>(i); };
  for (int m = 0; m < kM; ++m)
    for (int k = 0; k < kK; ++k)
      put(a, S::kA, operand_of(fields_of(S::kA), seed, tile, 0, u(m), u(k)));
  for (int n = 0; n < kN; ++n)
    for (int k = 0; k < kK; ++k) {
      const std::uint32_t place =
          S::kSparse ? place_of(S::kA, pattern_of(S::kA, tile), u(k)) : u(k);
      put(b, S::kB, operand_of(fields_of(S::kB), seed, tile, 1, u(n), place));
    }
  for (int m = 0; m < kM; ++m)
    for (int n = 0; n < kN; ++n) {
      starts.push_back(accumulator_of(fields_of(S::kD), seed, tile, u(m), u(n)));
      c.push_back(value_of(S::kD, starts.back()));
    }
  const std::vector<float> sums =
      accumulators({.a = {.dtype = S::kA, .codes = a.data(), .rows = kM},
                    .b = {.dtype = S::kB, .codes = b.data(), .rows = kN},
                    .K = kK,
                    .schedule = {.unit = &unit, .accumulate = S::kD},
                    .c = c.data()},
                   /*threads=*/1);
  std::uint64_t differing = 0, special = 0;
  for (int i = 0; i < kM * kN; ++i) {
    const auto at = static_cast<std::size_t>(i);
    std::uint32_t want = std::bit_cast<std::uint32_t>(sums[at]), got = 0;
    if constexpr (S::kD == Dtype::F32) {
      std::memcpy(&got, results + 4 * at, 4);
    } else {
      std::memcpy(&got, results + 2 * at, 2);
      want = sums[at] != sums[at]
                 ? static_cast<std::uint32_t>(kNanF16)
                 : static_cast<std::uint32_t>(encode(Dtype::F16, static_cast<double>(sums[at])));
    }
    special += !(std::abs(sums[at]) <= 3.4e38F) ? 1 : 0;
    if (got == want) continue;
    ++differing;
    if (counts.shown.fetch_add(1) < 6)
      show<S>(seed, tile, i / kN, i % kN, starts[at], got, want, a, b);
  }
  counts.compared += static_cast<std::uint64_t>(kM * kN);
  counts.differing += differing;
  counts.special += special;
  counts.by_recipe[tile % kRecipes] += differing;
}

std::uint64_t total = 0, total_differing = 0;
std::uint64_t wanted = 10'500'000;
std::string only;

const char* type_name(Dtype d) { return d == Dtype::F32 ? "tf32" : name(d).data(); }

template <class S>
void compare() {
  constexpr const char* kForms[] = {"mma.sync", "mma.sp", "wgmma", "wgmma, a in registers",
                                    "wgmma.sp"};
  char label[96];
  std::snprintf(label, sizeof label, "%-22s m%dn%dk%d %s %s -> %s",
                kForms[static_cast<int>(S::kForm)], S::kM, S::kN, S::kSparse ? 2 * S::kK : S::kK,
                type_name(S::kA), type_name(S::kB), S::kD == Dtype::F32 ? "f32" : "f16");
  if (std::string(label).find(only) == std::string::npos) return;
  const Dtype a = S::kA == Dtype::F32 ? Dtype::TF32 : S::kA,
              b = S::kB == Dtype::F32 ? Dtype::TF32 : S::kB;
  const Unit* const unit = find_unit("sm_90", S::kWgmma ? "wgmma" : "mma", a, b, S::kK);
  if (unit == nullptr) return std::printf("%s: the model has no such unit\n", label), void();
  constexpr std::size_t kTileBytes = S::kM * S::kN * (S::kD == Dtype::F32 ? 4 : 2);
  const auto tiles = static_cast<std::uint32_t>((wanted + S::kM * S::kN - 1) / (S::kM * S::kN));
  const auto seed = static_cast<std::uint32_t>(std::hash<std::string>{}(label));
  std::uint8_t* on_device = nullptr;
  check(cudaMalloc(&on_device, tiles * kTileBytes), "memory");
  run_tiles<S><<<132 * 8, S::kThreads>>>(seed, tiles, on_device);
  check(cudaGetLastError(), label);
  std::vector<std::uint8_t> results(tiles * kTileBytes);
  check(cudaMemcpy(results.data(), on_device, results.size(), cudaMemcpyDeviceToHost), label);
  check(cudaFree(on_device), "memory");
  Counts counts;
  const auto start = std::chrono::steady_clock::now();
  {
    std::atomic<std::uint32_t> next{0};
    std::vector<std::jthread> workers;
    for (unsigned w = 0; w < std::max(1U, std::thread::hardware_concurrency()); ++w)
      workers.emplace_back([&] {
        for (std::uint32_t tile; (tile = next.fetch_add(1)) < tiles;)
          judge_tile<S>(*unit, seed, tile, results.data() + tile * kTileBytes, counts);
      });
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-56s %10llu outputs, %8llu inf or NaN, %9llu differ, %5.2f s\n", label,
              static_cast<unsigned long long>(counts.compared),
              static_cast<unsigned long long>(counts.special),
              static_cast<unsigned long long>(counts.differing), seconds);
  if (counts.differing != 0)
    for (int r = 0; r < kRecipes; ++r)
      if (counts.by_recipe[r] != 0)
        std::printf("    %s: %llu\n", kRecipeNames[r],
                    static_cast<unsigned long long>(counts.by_recipe[r]));
  std::fflush(stdout);
  total += counts.compared;
  total_differing += counts.differing;
}

template <Form kForm, int kRowBytes, int kN>
void all_types() {
  using enum Dtype;
  compare<Spec<kForm, BF16, BF16, F32, kRowBytes, kN>>();
  compare<Spec<kForm, F16, F16, F32, kRowBytes, kN>>();
  compare<Spec<kForm, F16, F16, F16, kRowBytes, kN>>();
  compare<Spec<kForm, F32, F32, F32, kRowBytes, kN>>();
}
template <Form kForm, int kN>
void all_fp8() {
  using enum Dtype;
  compare<Spec<kForm, E4M3, E4M3, F32, 32, kN>>();
  compare<Spec<kForm, E4M3, E5M2, F32, 32, kN>>();
  compare<Spec<kForm, E5M2, E4M3, F32, 32, kN>>();
  compare<Spec<kForm, E5M2, E5M2, F32, 32, kN>>();
  compare<Spec<kForm, E4M3, E4M3, F16, 32, kN>>();
  compare<Spec<kForm, E5M2, E5M2, F16, 32, kN>>();
}

int run() {
  using enum Dtype;
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, 0), "device");
  std::printf("%s, sm_%d%d, %u host threads, %llu outputs an instruction\n", p.name, p.major,
              p.minor, std::thread::hardware_concurrency(),
              static_cast<unsigned long long>(wanted));
  all_types<Form::Mma, 32, 8>();
  all_types<Form::Mma, 16, 8>();
  all_fp8<Form::Mma, 8>();
  all_types<Form::WgmmaShared, 32, 8>(), all_fp8<Form::WgmmaShared, 8>();
  all_types<Form::WgmmaShared, 32, 64>(), all_fp8<Form::WgmmaShared, 64>();
  all_types<Form::WgmmaRegisters, 32, 8>(), all_fp8<Form::WgmmaRegisters, 8>();
  all_types<Form::WgmmaRegisters, 32, 64>(), all_fp8<Form::WgmmaRegisters, 64>();
  all_types<Form::WgmmaSparse, 32, 8>(), all_fp8<Form::WgmmaSparse, 8>();
  all_types<Form::MmaSparse, 32, 8>();
  compare<Spec<Form::MmaSparse, E4M3, E4M3, F32, 32, 8>>();
  compare<Spec<Form::MmaSparse, E4M3, E5M2, F32, 32, 8>>();
  compare<Spec<Form::MmaSparse, E5M2, E4M3, F32, 32, 8>>();
  compare<Spec<Form::MmaSparse, E5M2, E5M2, F32, 32, 8>>();
  std::printf("%llu outputs, %llu differ\n", static_cast<unsigned long long>(total),
              static_cast<unsigned long long>(total_differing));
  return total == 0 || total_differing != 0 ? 1 : 0;
}

}  // namespace
}  // namespace parity::tensorcore

int main(int argc, char** argv) {
  if (argc > 1) parity::tensorcore::wanted = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) parity::tensorcore::only = argv[2];
  return parity::tensorcore::run();
}
