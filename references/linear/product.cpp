#include "references/linear/product.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/failure.hpp"
#include "harness/numeric/philox.hpp"

namespace parity::linear {

Dense transposed(const Dense& x) {
  Dense t{.rows = x.columns, .columns = x.rows, .values = std::vector<double>(x.values.size())};
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t c = 0; c < x.columns; ++c)
      t.values[static_cast<std::size_t>(c * x.rows + r)] = x.at(r, c);
  return t;
}

Product times_transposed(const Dense& a, const Dense& b) {
  if (a.columns != b.columns) throw Failure("products of rows of different lengths");
  Product p{.value = {.rows = a.rows, .columns = b.rows}};
  p.value.values.reserve(static_cast<std::size_t>(a.rows * b.rows));
  p.size.reserve(static_cast<std::size_t>(a.rows * b.rows));
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t s = 0; s < b.rows; ++s) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < a.columns; ++k) {
        const double term = a.at(r, k) * b.at(s, k);
        sum += term;
        size += std::fabs(term);
      }
      p.value.values.push_back(sum);
      p.size.push_back(size);
    }
  }
  return p;
}

Dense times_transposed_f32(const Dense& a, const Dense& b, std::uint64_t order) {
  Dense y{.rows = a.rows, .columns = b.rows};
  const auto depth = static_cast<std::size_t>(a.columns);
  std::vector<std::size_t> terms(depth);
  std::iota(terms.begin(), terms.end(), std::size_t{0});
  std::size_t block = depth;
  if (order != 0) {
    const Rng rng{.seed = order, .stream = 0};
    for (std::size_t i = depth; i > 1; --i) std::swap(terms[i - 1], terms[rng.bits(i) % i]);
    block = std::size_t{1} << (rng.bits(0) % 6);
  }
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t s = 0; s < b.rows; ++s) {
      float sum = 0;
      for (std::size_t first = 0; first < depth; first += block) {
        float part = 0;
        for (std::size_t i = first; i < std::min(depth, first + block); ++i) {
          const auto k = static_cast<std::int64_t>(terms[i]);
          part += static_cast<float>(a.at(r, k)) * static_cast<float>(b.at(s, k));
        }
        sum += part;
      }
      y.values.push_back(static_cast<double>(sum));
    }
  }
  return y;
}

}  // namespace parity::linear
