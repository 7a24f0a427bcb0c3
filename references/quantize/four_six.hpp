// Four over six (arXiv 2512.02010): a block is quantised twice, with its amax on 6 and on 4, and
// the candidate with the smaller error stays; a tie keeps 6.
#pragma once

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {

enum class BlockError : std::uint8_t { Mean, Square, Largest };  // of |d|, of d^2

struct Candidates {
  Quantised six = {};
  Quantised four = {};
  // d of element i, quantised with that (decoded) scale.
  std::function<float(const Quantised&, std::size_t i, float scale)> deviation = {};
  BlockError error = BlockError::Mean;
};

// Errors are summed in f32 in the order of the elements; the 16 rows of a tile as a tree, r and
// r + 8, then + 4, + 2, + 1.
Quantised better_of(const Candidates&, Defect);

}  // namespace parity::quantize
