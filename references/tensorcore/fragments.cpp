#include "references/tensorcore/fragments.hpp"

#include <bit>
#include <vector>

#include "references/tensorcore/gemm.hpp"

namespace parity::tensorcore {
namespace {

constexpr int kRows = 16, kColumns = 8, kRowBytes = 32;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::byte byte_of(std::uint32_t word, int i) { return static_cast<std::byte>(word >> (8 * i)); }

// `count` scales of a row: consecutive bytes of the register of its lane.
void add_scales(std::vector<std::uint8_t>& scales, std::uint32_t word, int first_byte, int count) {
  for (int j = 0; j < count; ++j)
    scales.push_back(std::to_integer<std::uint8_t>(byte_of(word, first_byte + j)));
}

std::array<std::array<std::uint32_t, 4>, kWarp> mma(const Unit& unit, Dtype a_type, Dtype b_type,
                                                    const WarpRegisters& registers,
                                                    const Selectors& select) {
  std::array<std::array<std::byte, kRowBytes>, kRows> a = {};
  std::array<std::array<std::byte, kRowBytes>, kColumns> b = {};
  std::array<float, kRows* kColumns> c = {};
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < 4; ++r) {
        const Place place = byte_in_a(lane, r, i);
        a[index(place.row)][index(place.k)] = byte_of(registers.a[index(lane)][index(r)], i);
      }
      for (int r = 0; r < 2; ++r) {
        const Place place = byte_in_b(lane, r, i);
        b[index(place.row)][index(place.k)] = byte_of(registers.b[index(lane)][index(r)], i);
      }
      const Spot spot = place_in_c(lane, i);
      c[index(spot.row * kColumns + spot.column)] =
          std::bit_cast<float>(registers.c[index(lane)][index(i)]);
    }
  const int count = unit.scale_block == 0 ? 0 : unit.k / unit.scale_block;
  std::vector<std::uint8_t> scale_a, scale_b;
  for (int m = 0; m < kRows; ++m)
    add_scales(scale_a, registers.scale_a[index(scale_lane_a(m, select.thread_id_a))],
               select.byte_id_a, count);
  for (int n = 0; n < kColumns; ++n)
    add_scales(scale_b, registers.scale_b[index(scale_lane_b(n, select.thread_id_b))],
               select.byte_id_b, count);
  const std::vector<float> sums = accumulators({.a = {a_type, a.front().data(), kRows, scale_a},
                                                .b = {b_type, b.front().data(), kColumns, scale_b},
                                                .K = unit.k,
                                                .schedule = {.unit = &unit},
                                                .c = c.data()},
                                               /*threads=*/1);
  std::array<std::array<std::uint32_t, 4>, kWarp> d = {};
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i) {
      const Spot spot = place_in_c(lane, i);
      d[index(lane)][index(i)] =
          std::bit_cast<std::uint32_t>(sums[index(spot.row * kColumns + spot.column)]);
    }
  return d;
}

}  // namespace

std::array<std::array<std::uint32_t, 4>, kWarp> mma_m16n8k64(const Unit& unit,
                                                             const WarpRegisters& registers,
                                                             const Selectors& select) {
  return mma(unit, Dtype::E2M1, Dtype::E2M1, registers, select);
}

std::array<std::array<std::uint32_t, 4>, kWarp> mma_m16n8k32(const Unit& unit, Dtype a, Dtype b,
                                                             const WarpRegisters& registers,
                                                             const Selectors& select) {
  return mma(unit, a, b, registers, select);
}

std::array<std::array<std::uint32_t, 4>, kWarp> mma_m16n8k16(const Unit& unit, Dtype dtype,
                                                             const WarpRegisters& registers) {
  return mma(unit, dtype, dtype, registers, {});
}

}  // namespace parity::tensorcore
