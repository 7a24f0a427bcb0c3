// Ways of cutting a dense row-major tensor into regions, each way a partition of all its elements.
//
// A tensor is seen as `rows` lines of `columns` elements, the last axis. Every region is a union of
// whole rows or of whole columns, so that all of them follow from the sums per row and per column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/shape.hpp"

namespace parity {

struct Slicing {
  std::string axis = {};  // "t" each index, "t/16" blocks of 16 tokens, "t/64,h" those of each
                          // head, "t,h" each row
  bool over_columns = false;
  std::int64_t stride = 1;  // lines between neighbours on the axis
  std::int64_t extent = 1;
  std::int64_t block = 1;
  bool apart = false;  // the other axes are kept apart: a region for each combination of them
  std::int64_t count = 1;
  std::int64_t elements = 0;  // of a full region

  std::int64_t region(std::int64_t line) const {
    const std::int64_t at = (line / stride) % extent / block;
    if (!apart) return at;
    const std::int64_t blocks = (extent + block - 1) / block;
    return (line / (stride * extent) * blocks + at) * stride + line % stride;
  }
};

struct Grain {
  std::int64_t rows = 1, columns = 1;
};
Grain grain(const std::vector<Dim>& dims);

// Each index of each axis; each row; blocks of 16 and 64 along every axis that is longer, by
// themselves for the last axis and apart for each combination of the others for the rest (a chunk
// of one head). The last block is the last tile, whole or not. Nothing for an axis of extent 1.
std::vector<Slicing> slicings(const std::vector<Dim>& dims);

// "t=3", "t=64..127,h=1".
std::string describe(const Slicing&, const std::vector<Dim>& dims, std::int64_t region);

// Sum over the lines of each region.
std::vector<double> gather(const Slicing&, const std::vector<double>& by_row,
                           const std::vector<double>& by_column);
// Elements of each region.
std::vector<double> population(const Slicing&, const Grain&);

}  // namespace parity
