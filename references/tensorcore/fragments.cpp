#include "references/tensorcore/fragments.hpp"

#include <span>

namespace parity::tensorcore {
namespace {

constexpr int kRows = 16, kColumns = 8, kDepth = 64;

std::uint64_t nibble(std::uint32_t word, int i) { return (word >> (4 * i)) & 0xF; }

// Scales of one row: consecutive bytes of the register of its lane.
template <std::size_t kMost>
std::span<const std::uint64_t> scales(std::array<std::uint64_t, kMost>& list, std::uint32_t word,
                                      int first_byte, int count) {
  for (int j = 0; j < count; ++j)
    list[static_cast<std::size_t>(j)] = (word >> (8 * (first_byte + j))) & 0xFF;
  return {list.data(), static_cast<std::size_t>(count)};
}

}  // namespace

std::array<std::array<std::uint32_t, 4>, kWarp> mma_m16n8k64(const Unit& unit,
                                                             const WarpRegisters& registers,
                                                             const Selectors& select) {
  std::array<std::array<std::uint64_t, kDepth>, kRows> a = {};
  std::array<std::array<std::uint64_t, kDepth>, kColumns> b = {};
  const auto at = [](auto& list, int i) -> auto& { return list[static_cast<std::size_t>(i)]; };
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 8; ++i) {
      for (int r = 0; r < 4; ++r) {
        const Place place = place_in_a(lane, r, i);
        at(at(a, place.row), place.k) = nibble(at(at(registers.a, lane), r), i);
      }
      for (int r = 0; r < 2; ++r) {
        const Place place = place_in_b(lane, r, i);
        at(at(b, place.row), place.k) = nibble(at(at(registers.b, lane), r), i);
      }
    }
  const Instruction instruction{&unit, Dtype::E2M1, Dtype::E2M1, Dtype::F32};
  const int count = kDepth / unit.scale_block;
  std::array<std::array<std::uint32_t, 4>, kWarp> d = {};
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i) {
      const Spot spot = place_in_c(lane, i);
      std::array<std::uint64_t, 4> scale_a = {}, scale_b = {};
      const Factors factors{
          .a = at(a, spot.row),
          .b = at(b, spot.column),
          .scale_a =
              scales(scale_a, at(registers.scale_a, scale_lane_a(spot.row, select.thread_id_a)),
                     select.byte_id_a, count),
          .scale_b =
              scales(scale_b, at(registers.scale_b, scale_lane_b(spot.column, select.thread_id_b)),
                     select.byte_id_b, count)};
      at(at(d, lane), i) =
          static_cast<std::uint32_t>(dot(instruction, factors, at(at(registers.c, lane), i)));
    }
  return d;
}

}  // namespace parity::tensorcore
