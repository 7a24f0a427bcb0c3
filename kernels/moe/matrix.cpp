#include "kernels/moe/matrix.hpp"

#include <algorithm>

#include "kernels/kda/parallel.hpp"

namespace parity::moe_kernel {
namespace {

using kda_kernel::best_micro;
using kda_kernel::Product;

constexpr std::int64_t kBlock = 32;  // rows of a result that one thread takes at a time

template <class Work>
void for_blocks(int threads, std::int64_t rows, const Work& work) {
  const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
  kda_kernel::for_each_item(threads, blocks, [&] {
    return [&](std::int64_t b) { work(b * kBlock, std::min(kBlock, rows - b * kBlock)); };
  });
}

}  // namespace

Matrix load(Dtype dtype, const void* from, std::int64_t rows, std::int64_t cols) {
  Matrix m(rows, cols);
  best_micro().load({.data = from, .bf16 = dtype == Dtype::BF16, .stride = cols}, rows, cols,
                    m.data.data(), m.ld);
  return m;
}

void store_rows(const Matrix& part, Dtype dtype, void* to, std::int64_t first) {
  auto* at = static_cast<std::byte*>(to) + bytes_for(dtype, first * part.cols);
  best_micro().store(part.data.data(), part.ld, part.rows, part.cols,
                     {.data = at, .bf16 = dtype == Dtype::BF16, .stride = part.cols});
}

void store(const Matrix& m, Dtype dtype, void* to) { store_rows(m, dtype, to, 0); }

Matrix transposed(const Matrix& x) {
  // Whole blocks of 16 are written: rows of the result beyond those of x are cut off afterwards.
  Matrix t(x.ld, x.rows);
  best_micro().transpose(x.data.data(), x.ld, x.rows, x.ld, t.data.data(), t.ld);
  t.rows = x.cols;
  t.data.resize(static_cast<std::size_t>(t.rows * t.ld));
  return t;
}

Matrix times_transposed(int threads, const Matrix& x, const Matrix& w) {
  const Matrix wt = transposed(w);
  Matrix y(x.rows, w.rows);
  for_blocks(threads, x.rows, [&](std::int64_t first, std::int64_t rows) {
    best_micro().product({.m = rows,
                          .n = y.ld,
                          .k = x.cols,
                          .a = x.row(first),
                          .a_row = x.ld,
                          .b = wt.data.data(),
                          .ldb = wt.ld,
                          .out = y.row(first),
                          .ldo = y.ld});
  });
  return y;
}

Matrix times(int threads, const Matrix& y, const Matrix& w) {
  Matrix x(y.rows, w.cols);
  for_blocks(threads, y.rows, [&](std::int64_t first, std::int64_t rows) {
    best_micro().product({.m = rows,
                          .n = x.ld,
                          .k = y.cols,
                          .a = y.row(first),
                          .a_row = y.ld,
                          .b = w.data.data(),
                          .ldb = w.ld,
                          .out = x.row(first),
                          .ldo = x.ld});
  });
  return x;
}

void transposed_times(int threads, const Matrix& y, const Matrix& x, std::int64_t first,
                      std::int64_t last, Dtype dtype, void* to) {
  for_blocks(threads, y.cols, [&](std::int64_t from, std::int64_t count) {
    Matrix part(count, x.cols);
    best_micro().product({.m = count,
                          .n = part.ld,
                          .k = last - first,
                          .a = y.row(first) + from,
                          .a_row = 1,
                          .a_col = y.ld,
                          .b = x.row(first),
                          .ldb = x.ld,
                          .out = part.data.data(),
                          .ldo = part.ld});
    store_rows(part, dtype, to, from);
  });
}

void add(Matrix& to, const Matrix& what) {
  for (std::size_t i = 0; i < to.data.size(); ++i) to.data[i] += what.data[i];
}

}  // namespace parity::moe_kernel
