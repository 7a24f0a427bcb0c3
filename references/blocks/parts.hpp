// Parts of arrays: rows, columns and heads, cut out and put back.
#pragma once

#include <algorithm>

#include "references/blocks/array.hpp"

namespace parity::net {

// Entries [first, first + count) of the first axis.
template <class T>
Array<T> rows_of(const Array<T>& x, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> shape = x.shape;
  shape.front() = count;
  Array<T> part(std::move(shape));
  const std::int64_t entry = x.shape.front() == 0 ? 0 : x.count() / x.shape.front();
  std::copy_n(x.data.begin() + first * entry, count * entry, part.data.begin());
  return part;
}
template <class T>
void put_rows(Array<T>& to, std::int64_t first, const Array<T>& part) {
  const std::int64_t entry = to.shape.front() == 0 ? 0 : to.count() / to.shape.front();
  std::copy(part.data.begin(), part.data.end(), to.data.begin() + first * entry);
}

// Channels [first, first + count) of the last axis.
template <class T>
Array<T> columns_of(const Array<T>& x, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> shape = x.shape;
  shape.back() = count;
  Array<T> part(std::move(shape));
  for (std::int64_t r = 0; r < part.rows(); ++r)
    std::copy_n(x.row(r).begin() + first, count, part.row(r).begin());
  return part;
}
template <class T>
void add_columns(Array<T>& to, std::int64_t first, const Array<T>& part) {
  for (std::int64_t r = 0; r < part.rows(); ++r)
    for (std::int64_t i = 0; i < part.width(); ++i)
      to[r * to.width() + first + i] += part[r * part.width() + i];
}

// Rows of one head, [R,D], of x [R,H,D].
template <class T>
Array<T> head_of(const Array<T>& x_RHD, std::int64_t h) {
  const std::int64_t R = x_RHD.shape[0], H = x_RHD.shape[1], D = x_RHD.shape[2];
  Array<T> rows({R, D});
  for (std::int64_t r = 0; r < R; ++r)
    std::copy_n(x_RHD.data.begin() + (r * H + h) * D, D, rows.data.begin() + r * D);
  return rows;
}
// Adds rows [R,W] to channels [first, first + W) of one head.
template <class T>
void add_head(Array<T>& to_RHD, std::int64_t h, const Array<T>& rows, std::int64_t first = 0) {
  const std::int64_t H = to_RHD.shape[1], D = to_RHD.shape[2], W = rows.width();
  for (std::int64_t r = 0; r < to_RHD.shape[0]; ++r)
    for (std::int64_t i = 0; i < W; ++i) to_RHD[(r * H + h) * D + first + i] += rows[r * W + i];
}

}  // namespace parity::net
