// Matrix instructions of one warp and the loads and stores that fit them. A fragment's element of
// row r and column c is in lane 4 (r % 8) + c % 8 / 2 (a product's operand B: 4 (n % 8) + k % 8 /
// 2).
#pragma once

#include <cstdint>

namespace parity::device {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Two values as bf16, to nearest even, the first in the low half.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline float low_bf16(std::uint32_t packed) { return __uint_as_float(packed << 16); }
__device__ inline float high_bf16(std::uint32_t packed) {
  return __uint_as_float(packed & 0xFFFF0000U);
}

// Four 8x8 matrices of 16-bit elements; lane l names row l % 8 of matrix l / 8.
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t* to, std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_two_transposed(std::uint32_t (&to)[2], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(row)
               : "memory");
}
__device__ inline void store_transposed(std::uint32_t row, std::uint32_t a, std::uint32_t b,
                                        std::uint32_t c, std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// d += a b, 16x8 of 16 products, bf16 in.
__device__ inline void multiply_bf16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// To nearest once the product drops the 13 low bits, ties away from zero.
__device__ inline std::uint32_t to_tf32(float x) { return __float_as_uint(x) + 0x1000U; }
// d += a b, 16x8 of 8 products, tf32 in.
__device__ inline void multiply_tf32(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace parity::device
