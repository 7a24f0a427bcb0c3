// Coarser grids than an output's own format: what an f32 state that was kept in bf16 lies on.
#pragma once

#include <span>
#include <vector>

#include "harness/dtype.hpp"

namespace parity {

// Of bf16, tf32, f16, e4m3 (and f32 for a f64 output) those with fewer fraction bits than `output`.
std::vector<Dtype> coarser_grids(Dtype output);

bool on_grid(Dtype grid, double value);

// Share of the non-zero finite values that are representable in each grid; `counted` is how many.
struct GridShares {
  std::vector<double> share = {};  // in the order of coarser_grids
  double counted = 0;
};
GridShares grid_shares(std::span<const double> values, Dtype output);

// The values that say something of the grid they were kept on: those within 1/8 of the truth.
//
// What is left of a cancellation ends in zero bits in any format. An f32 sum whose largest term is
// m has steps of 2^-23 m, so its value x lies on a grid of b fraction bits by itself where m / |x|
// >= 2^(23 - b). Operands of bf16, right to 2^-9 each, leave an error of 2^-9 m / sqrt(n) in a sum
// of n of them, which there is 2^(14 - b) / sqrt(n) of |x|: for n <= 256, 8 |x| on the grid of bf16
// and |x| on that of tf32. 1/8 lies below both and above the error that storing in a grid makes
// (2^-8 of |x| in bf16, 2^-4 in e4m3), so that what was stored there is still counted. Where only
// f32 rounds, values with such errors stay; they are as frequent in the base's own runs, which the
// limit follows.
std::vector<double> telling_values(std::span<const double> values, std::span<const double> truth);

// By chance: 2^-(fraction bits lost).
double grid_chance(Dtype grid, Dtype output);

}  // namespace parity
