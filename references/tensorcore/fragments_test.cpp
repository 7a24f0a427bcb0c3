// Matrices scattered into registers by hand and multiplied there give the products of the matrices;
// a layout that is wrong in any part does not.
#include "references/tensorcore/fragments.hpp"

#include <bit>
#include <functional>
#include <gtest/gtest.h>
#include <set>

#include "harness/numeric/philox.hpp"

namespace parity::tensorcore {
namespace {

constexpr int kRows = 16, kColumns = 8, kDepth = 64;

struct Matrices {
  std::vector<std::uint64_t> a, b, scale_a, scale_b, c;  // c row by row
};

Matrices drawn(int scales, std::uint64_t seed) {
  Matrices m;
  const Rng rng{seed, 0};
  std::uint64_t n = 0;
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return static_cast<std::uint64_t>(rng.integer(n++, low, high));
  };
  for (int i = 0; i < kRows * kDepth; ++i) m.a.push_back(draw(0, 15));
  for (int i = 0; i < kColumns * kDepth; ++i) m.b.push_back(draw(0, 15));
  for (int i = 0; i < kRows * scales; ++i) m.scale_a.push_back(draw(0x30, 0x47));
  for (int i = 0; i < kColumns * scales; ++i) m.scale_b.push_back(draw(0x30, 0x47));
  for (int i = 0; i < kRows * kColumns; ++i)
    m.c.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(rng.normal(n++))));
  return m;
}

// How a kernel fills registers, with room for its mistakes.
struct Loader {
  std::function<int(int)> a_register = [](int r) { return r; };
  std::function<int(int)> a_nibble = [](int i) { return i; };
  std::function<int(int)> b_register = [](int r) { return r; };
  std::function<int(int)> scale_row = [](int m) { return m; };
};

WarpRegisters scattered(const Matrices& m, int scales, const Selectors& select,
                        const Loader& loader) {
  WarpRegisters w;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 8; ++i) {
      for (int r = 0; r < 4; ++r) {
        const Place p = place_in_a(lane, loader.a_register(r), loader.a_nibble(i));
        w.a[at(lane)][at(r)] |=
            static_cast<std::uint32_t>(m.a[at(p.row * kDepth + p.k)] << (4 * i));
      }
      for (int r = 0; r < 2; ++r) {
        const Place p = place_in_b(lane, loader.b_register(r), i);
        w.b[at(lane)][at(r)] |=
            static_cast<std::uint32_t>(m.b[at(p.row * kDepth + p.k)] << (4 * i));
      }
      if (i < 4) {
        const Spot s = place_in_c(lane, i);
        w.c[at(lane)][at(i)] = static_cast<std::uint32_t>(m.c[at(s.row * kColumns + s.column)]);
      }
    }
  for (int j = 0; j < scales; ++j) {
    for (int row = 0; row < kRows; ++row)
      w.scale_a[at(scale_lane_a(loader.scale_row(row), select.thread_id_a))] |=
          static_cast<std::uint32_t>(m.scale_a[at(row * scales + j)]
                                     << (8 * (select.byte_id_a + j)));
    for (int n = 0; n < kColumns; ++n)
      w.scale_b[at(scale_lane_b(n, select.thread_id_b))] |=
          static_cast<std::uint32_t>(m.scale_b[at(n * scales + j)] << (8 * (select.byte_id_b + j)));
  }
  return w;
}

// Outputs that differ from the plain dot products.
int wrong(const Unit& unit, const Selectors& select, const Loader& loader) {
  const int scales = kDepth / unit.scale_block;
  const Matrices m = drawn(scales, 17);
  const auto d = mma_m16n8k64(unit, scattered(m, scales, select, loader), select);
  int count = 0;
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i) {
      const Spot s = place_in_c(lane, i);
      const auto part = [](const std::vector<std::uint64_t>& list, int row, int length) {
        return std::span(list).subspan(static_cast<std::size_t>(row * length),
                                       static_cast<std::size_t>(length));
      };
      const std::uint64_t want =
          dot({&unit, Dtype::E2M1, Dtype::E2M1, Dtype::F32},
              {part(m.a, s.row, kDepth), part(m.b, s.column, kDepth),
               part(m.scale_a, s.row, scales), part(m.scale_b, s.column, scales)},
              m.c[static_cast<std::size_t>(s.row * kColumns + s.column)]);
      count += d[static_cast<std::size_t>(lane)][static_cast<std::size_t>(i)] == want ? 0 : 1;
    }
  return count;
}

const Unit& unit_of(const char* family) {
  return *find_unit("sm_120", family, Dtype::E2M1, Dtype::E2M1);
}

TEST(Fragments, EveryElementHasOnePlace) {
  std::set<std::pair<int, int>> a, b, c;
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 8; ++i) {
      for (int r = 0; r < 4; ++r) a.emplace(place_in_a(lane, r, i).row, place_in_a(lane, r, i).k);
      for (int r = 0; r < 2; ++r) b.emplace(place_in_b(lane, r, i).row, place_in_b(lane, r, i).k);
      if (i < 4) c.emplace(place_in_c(lane, i).row, place_in_c(lane, i).column);
    }
  EXPECT_EQ(a.size(), static_cast<std::size_t>(kRows * kDepth));
  EXPECT_EQ(b.size(), static_cast<std::size_t>(kColumns * kDepth));
  EXPECT_EQ(c.size(), static_cast<std::size_t>(kRows * kColumns));
}

TEST(Fragments, RegistersGiveTheProductsOfTheMatrices) {
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 4; ++b)
      EXPECT_EQ(wrong(unit_of("mma.mxf4nvf4"), {.thread_id_a = a, .thread_id_b = b}, {}), 0);
  for (const int byte : {0, 2})
    EXPECT_EQ(wrong(unit_of("mma.mxf4"), {.byte_id_a = byte, .byte_id_b = 2 - byte}, {}), 0);
}

// 8-bit operands lie as pairs of nibbles do.
TEST(Fragments, BytesLieWherePairsOfNibblesDo) {
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < 4; ++r) {
        EXPECT_EQ(byte_in_a(lane, r, i).row, place_in_a(lane, r, 2 * i).row);
        EXPECT_EQ(2 * byte_in_a(lane, r, i).k, place_in_a(lane, r, 2 * i).k);
      }
      for (int r = 0; r < 2; ++r) {
        EXPECT_EQ(byte_in_b(lane, r, i).row, place_in_b(lane, r, 2 * i).row);
        EXPECT_EQ(2 * byte_in_b(lane, r, i).k, place_in_b(lane, r, 2 * i).k);
      }
    }
}

// m16n8k32: one scale a row, any byte of the register.
TEST(Fragments, EightBitRegistersGiveTheProductsOfTheMatrices) {
  const Unit& unit = *find_unit("sm_120", "mma.mxf8f6f4", Dtype::E4M3, Dtype::E5M2);
  const Rng rng{23, 0};
  const auto byte = [&](std::uint64_t n) { return static_cast<std::uint32_t>(rng.bits(n) & 0x7B); };
  for (int select = 0; select < 4; ++select) {
    std::array<std::array<std::uint64_t, 32>, kRows> a = {};
    std::array<std::array<std::uint64_t, 32>, kColumns> b = {};
    WarpRegisters w;
    std::uint64_t n = 1000 * static_cast<std::uint64_t>(select);
    const auto at = [](int i) { return static_cast<std::size_t>(i); };
    for (int lane = 0; lane < kWarp; ++lane)
      for (int i = 0; i < 4; ++i) {
        for (int r = 0; r < 4; ++r) {
          const Place p = byte_in_a(lane, r, i);
          const std::uint32_t code = byte(n++);
          a[at(p.row)][at(p.k)] = code;
          w.a[at(lane)][at(r)] |= code << (8 * i);
        }
        for (int r = 0; r < 2; ++r) {
          const Place p = byte_in_b(lane, r, i);
          const std::uint32_t code = byte(n++);
          b[at(p.row)][at(p.k)] = code;
          w.b[at(lane)][at(r)] |= code << (8 * i);
        }
      }
    const auto scale_of = [](int row) { return static_cast<std::uint32_t>(120 + row); };
    for (int m = 0; m < kRows; ++m)
      w.scale_a[at(scale_lane_a(m, 0))] |= scale_of(m) << (8 * select);
    for (int column = 0; column < kColumns; ++column)
      w.scale_b[at(scale_lane_b(column, 0))] |= scale_of(column + 3) << (8 * (3 - select));
    const auto d = mma_m16n8k32(unit, Dtype::E4M3, Dtype::E5M2, w,
                                {.byte_id_a = select, .byte_id_b = 3 - select});
    for (int lane = 0; lane < kWarp; ++lane)
      for (int i = 0; i < 4; ++i) {
        const Spot s = place_in_c(lane, i);
        const std::uint64_t scale_a[] = {scale_of(s.row)}, scale_b[] = {scale_of(s.column + 3)};
        EXPECT_EQ(d[at(lane)][at(i)], dot({&unit, Dtype::E4M3, Dtype::E5M2, Dtype::F32},
                                          {a[at(s.row)], b[at(s.column)], scale_a, scale_b}, 0));
      }
  }
}

TEST(Fragments, WrongLayoutsAreSeen) {
  const Unit& unit = unit_of("mma.mxf4nvf4");
  Loader halves, nibbles, b_halves, scale_rows;
  halves.a_register = [](int r) { return (r & 1) * 2 + (r >> 1); };  // r & 1 for r >> 1
  nibbles.a_nibble = [](int i) { return i ^ 1; };
  b_halves.b_register = [](int r) { return 1 - r; };
  scale_rows.scale_row = [](int m) { return m ^ 8; };  // rows 8 to 15 by the lanes of 0 to 7
  for (const Loader& loader : {halves, nibbles, b_halves, scale_rows})
    EXPECT_GT(wrong(unit, {}, loader), kRows * kColumns / 2);
}

}  // namespace
}  // namespace parity::tensorcore
