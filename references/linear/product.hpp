// Products of matrices of exact values, as every linear here judges them: truth in fp64 with the
// magnitude companion sum |a b|, and evaluations in f32 in any order of the sum.
#pragma once

#include <cstdint>
#include <vector>

namespace parity::linear {

struct Dense {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values = {};  // row-major
  double at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
};
Dense transposed(const Dense&);

struct Product {
  Dense value = {};
  std::vector<double> size = {};  // sum |a b|
};
// a[R,K] b[S,K]^T -> [R,S]. Sums ascend in fp64; products of values of at most 24 bits are exact.
Product times_transposed(const Dense& a, const Dense& b);

// The same with f32 products and sums. `order` 0: ascending; else a permutation of the terms drawn
// from it, summed in blocks.
Dense times_transposed_f32(const Dense& a, const Dense& b, std::uint64_t order);

}  // namespace parity::linear
