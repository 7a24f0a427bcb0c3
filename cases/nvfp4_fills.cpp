#include "cases/nvfp4_fills.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "cases/quantize_fills.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::nvfp4_fills {
namespace {

using quantize_fills::draw_normal;
using quantize_fills::index_of;
using quantize_fills::is_cotangent;
using quantize_fills::ulp;

constexpr std::int64_t kBlock = 16;
constexpr double kFull = 2688;  // 448 * 6

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

// Block b of row r, counted over the tensor.
std::int64_t block_of(const RowDraw& d, std::size_t i) {
  return (d.first + static_cast<std::int64_t>(i)) / kBlock;
}

constexpr std::array<double, 7> kThresholds = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};

// Thresholds of e2m1 under power-of-two scales; `beside`: one ulp to either side of them.
void thresholds(const RowDraw& d, std::span<double> out, bool beside) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t block = block_of(d, i);
    const double scale = power_of_two(static_cast<int>(block % 13) - 5);
    const auto at = static_cast<std::size_t>(d.first) + i;
    double t = kThresholds[(at + static_cast<std::size_t>(block)) % 7];
    if (beside) t *= at % 2 == 0 ? 1 + ulp(d) : 1 - ulp(d) / 2;
    if (static_cast<std::int64_t>(at) % kBlock == block % kBlock) t = 6;
    out[i] = (at / 3 % 2 == 0 ? t : -t) * scale;
  }
  if (d.row == 0) out[0] = kFull;
}
void draw_ties(const RowDraw& d, std::span<double> out) {
  if (!is_cotangent(d, out)) thresholds(d, out, false);
}
void draw_beside_ties(const RowDraw& d, std::span<double> out) {
  if (!is_cotangent(d, out)) thresholds(d, out, true);
}

// Block scales midway between two e4m3 numbers, normal and subnormal, and an ulp beside; noise
// below the amax.
void draw_scale_ties(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t block = block_of(d, i);
    const std::int64_t odd = 2 * (block % 8) + 1;  // in sixteenths
    const int exponent = static_cast<int>(block % 17) - 9;
    double scale = (1 + static_cast<double>(odd) / 16) * power_of_two(exponent);
    if (exponent < -6) scale = static_cast<double>(odd) * 0x1p-10;
    if (block % 3 == 1) scale *= 1 + ulp(d);
    if (block % 3 == 2) scale *= 1 - ulp(d) / 2;
    const std::int64_t place = (d.first + static_cast<std::int64_t>(i)) % kBlock;
    out[i] = place == block % kBlock ? (block % 2 == 0 ? -6 : 6) * scale
                                     : std::clamp(out[i], -3.0, 3.0) * 1.5 * scale;
  }
  if (d.row == 0) out[0] = kFull;
}

// Blocks from 2^-3 to 2^-20 of the tensor's amax: e4m3 subnormals, and scales that underflow beside
// non-zero elements.
void draw_tiny_blocks(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] *= kFull / 4 * power_of_two(-3 - static_cast<int>(block_of(d, i) % 18));
  if (d.row == 0) out[0] = -kFull;
}

void draw_zero_blocks(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (block_of(d, i) % 3 == 1) out[i] = 0;
}

// Signs alternate and sizes fall, so that no permutation inside a block leaves it as it was.
void draw_alternating(const RowDraw& d, std::span<double> out) {
  if (is_cotangent(d, out)) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = (static_cast<std::size_t>(d.first) + i) % 61;
    out[i] = (i % 2 == 0 ? 1.0 : -1.0) * (0.1 + static_cast<double>(at) * 0.1);
  }
}

// Beyond every scale of one level: 448 saturates, and so do the codes.
void draw_beyond(const RowDraw& d, std::span<double> out) {
  draw_normal(d, out);
  if (d.spec.role == Role::Cotangent) return;
  for (double& x : out) x *= 8192;
}

// (tensor amax, block amax, x) at which public chains part by one scale byte or one code: the seed
// names one. The tensor's amax opens the first block, the block's amax and x the second.
void draw_splits(const RowDraw& d, std::span<double> out) {
  if (is_cotangent(d, out)) return;
  struct Split {
    std::uint32_t amax, block, x;
  };
  constexpr std::array<Split, 16> kSplits = {{{0x3f820000, 0x3f430000, 0},
                                              {0x3f8c0000, 0x3f110000, 0},
                                              {0x3f8c0000, 0x3f2a0000, 0},
                                              {0x3f8e0000, 0x3f550000, 0},
                                              {0x3f9a0000, 0x3f3b0000, 0},
                                              {0x3f9a0000, 0x3f510000, 0},
                                              {0x3fd00000, 0x3f9c0000, 0},
                                              {0x3fe00000, 0x3fc80000, 0},
                                              {0x40e00000, 0x40ca0000, 0x3f500000},
                                              {0x40e40000, 0x3fcd0000, 0x3f770000},
                                              {0x40130000, 0x3f040000, 0x3cb60000},
                                              {0x40100000, 0x3f820000, 0x3f1c0000},
                                              {0x40fc0000, 0x40630000, 0x40430000},
                                              {0x40560000, 0x3dc10000, 0x3d680000},
                                              {0x40910000, 0x3e820000, 0x3e600000},
                                              // The one f32 mantissa of a block's amax at which
                                              // amax / 6 and amax fl(1/6) give other e4m3 bytes.
                                              {0x40e3ffff, 0x40e3ffff, 0x40000000}}};
  const Split& s = kSplits[d.problem.seed % kSplits.size()];
  const auto value = [](std::uint32_t bits) {
    return static_cast<double>(std::bit_cast<float>(bits));
  };
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = d.rng.normal(index_of(d, i)) * value(s.block) / 16;
  if (d.row != 0) return;
  out[0] = value(s.amax);
  out[16] = value(s.block);
  out[18] = value(s.x);
  out[19] = -value(s.x);
}

// A tensor amax that is no power of two; block amaxes within five ulp of every edge between two
// e4m3 scales, x within five ulp of a threshold of e2m1 under the scale below or above. Chains
// differ by the order of a few operations, so by an ulp: some of these tell any two of them apart.
void draw_edges(const RowDraw& d, std::span<double> out) {
  if (is_cotangent(d, out)) return;
  constexpr double kAmax =
      7.140625;  // whose 2688 / amax differs from the product with its reciprocal
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t block = block_of(d, i),
                       place = static_cast<std::int64_t>(index_of(d, i)) % kBlock;
    const double unit = kAmax / kFull * power_of_two(static_cast<int>(block % 9) - 3);
    const auto mantissa =
        static_cast<double>(16 + 2 * (block % 8) + 1);  // in sixteenths, odd: an edge
    const double scale = mantissa + (block / 8 % 2 == 0 ? -1 : 1);
    const auto off = [&](std::int64_t k) { return 1 + static_cast<double>(k % 11 - 5) * ulp(d); };
    const double size = place == block % kBlock ? 6 * mantissa * off(block)
                                                : kThresholds[static_cast<std::size_t>(place) % 7] *
                                                      scale * off(place + block);
    out[i] = (place % 3 == 0 ? -size : size) / 16 * unit;
  }
  // The one f32 mantissa of a block's amax at which amax / 6 and amax fl(1/6) give other bytes.
  if (d.row == 0) out[0] = kAmax, out[16] = static_cast<double>(std::bit_cast<float>(0x40e3ffffU));
}

// Magnitudes of 6 and 4 among values on the grid of a 4 and of a 6 scale: either choice is exact in
// some blocks, both err alike in others.
void draw_choices(const RowDraw& d, std::span<double> out) {
  if (is_cotangent(d, out)) return;
  constexpr std::array<double, 8> kGrid = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t block = block_of(d, i);
    const std::uint64_t draw = d.rng.bits(index_of(d, i));
    double size = kGrid[draw % 8];
    if (block % 3 == 0) size = size * 2 / 3;                      // the grid of four
    if (block % 3 == 1) size += (draw >> 8) % 2 == 0 ? 0 : 0.25;  // between
    out[i] = ((draw >> 16) % 2 == 0 ? size : -size) * power_of_two(static_cast<int>(block % 5) - 2);
  }
  if (d.row == 0) out[0] = 24;
}

}  // namespace

Fill ties() {
  return {"ties", "x on the thresholds of e2m1, scales powers of two", draw_ties, true};
}
Fill beside_ties() {
  return {"beside_ties", "x an ulp beside the thresholds", draw_beside_ties, true};
}
Fill scale_ties() {
  return {"scale_ties", "block scales on and beside the midpoints of e4m3", draw_scale_ties, true};
}
Fill tiny_blocks() {
  return {"tiny_blocks", "subnormal and underflowing scales", draw_tiny_blocks, true};
}
Fill zero_blocks() { return {"zero_blocks", "every third block is zero", draw_zero_blocks}; }
Fill alternating() { return {"alternating", "order inside a block shows", draw_alternating, true}; }
Fill beyond() { return {"beyond", "more than 448 * 6: scales and codes saturate", draw_beyond}; }
Fill splits() { return {"splits", "known answers at which chains part", draw_splits, true}; }
Fill edges() {
  return {"edges", "scales and codes within five ulp of where they turn", draw_edges, true};
}
Fill corners() {
  return {
      "corners", "ties, underflow, zero blocks, zeros of both signs, a row each",
      quantize_fills::in_turn<draw_ties, draw_scale_ties, draw_beside_ties, draw_tiny_blocks,
                              draw_zero_blocks, draw_alternating,
                              quantize_fills::draw_negative_zeros, quantize_fills::draw_negative>,
      true};
}
Fill choices() {
  return {"choices", "blocks that 4 fits, that 6 fits, and ties between them", draw_choices, true};
}

}  // namespace parity::nvfp4_fills
