// Which two of four are kept: a mask by each source's own rule.
//   weight norm  the two smallest w w (f32) of a group are zeroed; of equal squares, which is
//                nobody's rule: those elements are open      torch.ao.pruning.WeightNormSparsifier
//   higher       ascending |w|, stable: of equal ones the later is kept
//                                       compressed-tensors 0.20.1, semi_structured_conversions.py
//   tile         each 4x4 tile in falling signed value, of equal ones the lower flat index first;
//   at
//                most two kept in every row and column        torch 2.11.0, the CPU pruner of tiles
#pragma once

#include <cstdint>
#include <vector>

#include "harness/tensor.hpp"
#include "references/sparse24/faults.hpp"

namespace parity::sparse24 {

enum class Rule : std::uint8_t { WeightNorm, HigherIndex, Tile };

struct Mask {
  std::vector<std::uint8_t> kept = {};
  std::vector<std::uint8_t> open = {};
};
// `x` is a matrix; its rows (for tiles its columns too) are a multiple of 4.
Mask prune(const Tensor& x, Rule, Defect);

}  // namespace parity::sparse24
