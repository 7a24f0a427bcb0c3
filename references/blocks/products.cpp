// The three products of a linear map and its backward, by Eigen. The variants of a base cut the
// contracted axis into blocks and add them from the last on.
#include <Eigen/Core>
#include <algorithm>

#include "harness/failure.hpp"
#include "references/blocks/run.hpp"

namespace parity::net {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
Eigen::Map<const Matrix<T>> map(const Array<T>& x) {
  return {x.data.data(), x.rows(), x.width()};
}

// multiply(first, length) gives the product over that part of the contracted axis.
template <class T, class Multiply>
Array<T> in_blocks(const Run<T>& run, std::vector<std::int64_t> shape, std::int64_t length,
                   Multiply multiply) {
  Array<T> result(std::move(shape));
  Eigen::Map<Matrix<T>> sum(result.data.data(), result.rows(), result.width());
  const std::int64_t block = run.variation() == 0 ? std::max<std::int64_t>(length, 1)
                                                  : std::int64_t{8} << (run.variation() % 4);
  for (std::int64_t blocks = (length + block - 1) / block, b = blocks - 1; b >= 0; --b)
    sum += multiply(b * block, std::min(block, length - b * block));
  return result;
}

template <class T>
std::vector<std::int64_t> with_width(const Array<T>& x, std::int64_t width) {
  std::vector<std::int64_t> shape = x.shape;
  shape.back() = width;
  return shape;
}

void check(bool fits, const char* what) {
  if (!fits) throw Failure(std::string("shapes of ") + what + " do not fit");
}

}  // namespace

template <class T>
Array<T> times_transposed(const Run<T>& run, const Array<T>& x, const Array<T>& w) {
  check(x.width() == w.width(), "x w^T");
  return in_blocks(run, with_width(x, w.rows()), x.width(), [&](std::int64_t k, std::int64_t n) {
    return (map(x).middleCols(k, n) * map(w).middleCols(k, n).transpose()).eval();
  });
}

template <class T>
Array<T> times(const Run<T>& run, const Array<T>& y, const Array<T>& w) {
  check(y.width() == w.rows(), "y w");
  return in_blocks(run, with_width(y, w.width()), y.width(), [&](std::int64_t k, std::int64_t n) {
    return (map(y).middleCols(k, n) * map(w).middleRows(k, n)).eval();
  });
}

template <class T>
Array<T> transposed_times(const Run<T>& run, const Array<T>& y, const Array<T>& x) {
  check(y.rows() == x.rows(), "y^T x");
  return in_blocks(run, {y.width(), x.width()}, y.rows(), [&](std::int64_t r, std::int64_t n) {
    return (map(y).middleRows(r, n).transpose() * map(x).middleRows(r, n)).eval();
  });
}

template Array<double> times_transposed(const Run<double>&, const Array<double>&,
                                        const Array<double>&);
template Array<float> times_transposed(const Run<float>&, const Array<float>&, const Array<float>&);
template Array<double> times(const Run<double>&, const Array<double>&, const Array<double>&);
template Array<float> times(const Run<float>&, const Array<float>&, const Array<float>&);
template Array<double> transposed_times(const Run<double>&, const Array<double>&,
                                        const Array<double>&);
template Array<float> transposed_times(const Run<float>&, const Array<float>&, const Array<float>&);

}  // namespace parity::net
