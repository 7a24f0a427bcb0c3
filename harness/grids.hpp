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

// The values that say something of the grid they were kept on: those within 1/8 of the truth. What
// is left of a cancellation ends in zero bits in any format.
std::vector<double> telling_values(std::span<const double> values, std::span<const double> truth);

// By chance: 2^-(fraction bits lost).
double grid_chance(Dtype grid, Dtype output);

}  // namespace parity
