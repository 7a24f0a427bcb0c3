// The formats that pair_stats_rows.hpp takes, and how eight elements become doubles.
//
// A row is 16 elements. eight(p, row, half) gives those of the lanes lane(half, 0), …, lane(half,
// 7).
#pragma once

#include <cstddef>

namespace parity::pair_detail {
namespace {

template <class Isa>
struct ElementF32 {
  using Words = typename Isa::Words32;
  static constexpr int kBytes = 4;
  static constexpr int kMagnitude = 0x7FFFFFFF;
  static constexpr int kInfinity = 0x7F800000;
  static int lane(int half, int i) { return 8 * half + i; }
  static auto eight(const std::byte* p, int row, int half) {
    return Isa::widen_f32(p + 64 * row + 32 * half);
  }
};

template <class Isa>
struct ElementBf16 {  // the upper half of a float: the halves are the odd and even elements
  using Words = typename Isa::Words16;
  static constexpr int kBytes = 2;
  static constexpr int kMagnitude = 0x7FFF;
  static constexpr int kInfinity = 0x7F80;
  static int lane(int half, int i) { return 2 * i + half; }
  static auto eight(const std::byte* p, int row, int half) {
    return half == 0 ? Isa::widen_bf16_even(p + 32 * row) : Isa::widen_bf16_odd(p + 32 * row);
  }
};

template <class Isa>
struct ElementF16 {
  using Words = typename Isa::Words16;
  static constexpr int kBytes = 2;
  static constexpr int kMagnitude = 0x7FFF;
  static constexpr int kInfinity = 0x7C00;
  static int lane(int half, int i) { return 8 * half + i; }
  static auto eight(const std::byte* p, int row, int half) {
    return Isa::widen_f16(p + 32 * row + 16 * half);
  }
};

}  // namespace
}  // namespace parity::pair_detail
