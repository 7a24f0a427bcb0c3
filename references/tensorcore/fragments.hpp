// Where the operands of the block-scaled mma.sync m16n8k64 (e2m1) and m16n8k32 (8 bits) of sm_120
// lie in the registers of a warp, and the instructions on registers: for kernels that load
// fragments by hand.
//
// Lane = 4 g + t. Elements are counted from the low end of a register. All take 32 bytes
// of a row. Layouts after the traits of CUTLASS 4.2 (cute/atom/mma_traits_sm120.hpp) and the
// PTX ISA 9.0, 9.7.14.5; of the block-scaled ones no hardware confirmed them here.
#pragma once

#include <array>
#include <cstdint>

#include "references/tensorcore/dot.hpp"

namespace parity::tensorcore {

inline constexpr int kWarp = 32;

struct Place {
  int row = 0;  // of a (M); of b its column (N)
  int k = 0;
};
// Nibble i of register r: a has 4 registers of 8 nibbles, b has 2.
[[nodiscard]] constexpr Place place_in_a(int lane, int r, int i) {
  return {lane / 4 + 8 * (r & 1), 8 * (lane % 4) + i + 32 * (r >> 1)};
}
[[nodiscard]] constexpr Place place_in_b(int lane, int r, int i) {
  return {lane / 4, 8 * (lane % 4) + i + 32 * r};
}
// Byte i of register r of 8-bit operands, or of a pair of nibbles: k in bytes.
[[nodiscard]] constexpr Place byte_in_a(int lane, int r, int i) {
  return {lane / 4 + 8 * (r & 1), 4 * (lane % 4) + i + 16 * (r >> 1)};
}
[[nodiscard]] constexpr Place byte_in_b(int lane, int r, int i) {
  return {lane / 4, 4 * (lane % 4) + i + 16 * r};
}
// Register i of c and d: row and column.
struct Spot {
  int row = 0, column = 0;
};
[[nodiscard]] constexpr Spot place_in_c(int lane, int i) {
  return {lane / 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)};
}
// Lanes whose scale register the instruction reads: of row m under thread-id-a (0, 1), of column n
// under thread-id-b (0 to 3).
[[nodiscard]] constexpr int scale_lane_a(int m, int thread_id_a) {
  return 4 * (m % 8) + 2 * thread_id_a + m / 8;
}
[[nodiscard]] constexpr int scale_lane_b(int n, int thread_id_b) { return 4 * n + thread_id_b; }

struct Selectors {
  int thread_id_a = 0, thread_id_b = 0;
  int byte_id_a = 0, byte_id_b = 0;  // first byte of the scales: with 4 scales 0, with two 0 or 2
};

// Registers of a warp, by lane.
struct WarpRegisters {
  std::array<std::array<std::uint32_t, 4>, kWarp> a = {};
  std::array<std::array<std::uint32_t, 2>, kWarp> b = {};
  std::array<std::array<std::uint32_t, 4>, kWarp> c = {};  // f32 patterns
  std::array<std::uint32_t, kWarp> scale_a = {}, scale_b = {};
};

// Registers of d after mma.sync.aligned.m16n8k64.kind::mxf4 or mxf4nvf4 (its unit).
[[nodiscard]] std::array<std::array<std::uint32_t, 4>, kWarp> mma_m16n8k64(const Unit&,
                                                                           const WarpRegisters&,
                                                                           const Selectors&);
// After m16n8k32.kind::mxf8f6f4 with operands of 8 bits.
[[nodiscard]] std::array<std::array<std::uint32_t, 4>, kWarp> mma_m16n8k32(const Unit&, Dtype a,
                                                                           Dtype b,
                                                                           const WarpRegisters&,
                                                                           const Selectors&);

// After m16n8k16 with operands of 16 bits, without scales.
[[nodiscard]] std::array<std::array<std::uint32_t, 4>, kWarp> mma_m16n8k16(const Unit&, Dtype,
                                                                           const WarpRegisters&);

}  // namespace parity::tensorcore
