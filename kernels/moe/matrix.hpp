// Dense f32 matrices and their three products, on the instruction set that the machine has
// (kernels/kda/micro.hpp). Rows are padded with zeros to whole registers. Every element of a
// product is one chain of multiply-adds over the contracted axis in ascending order, whatever the
// number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/dtype.hpp"
#include "kernels/kda/micro.hpp"

namespace parity::moe_kernel {

struct Matrix {
  std::int64_t rows = 0, cols = 0, ld = 0;
  std::vector<float> data = {};

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), cols(c), ld(kda_kernel::pad(c)), data(static_cast<std::size_t>(r * ld)) {}
  float* row(std::int64_t r) { return data.data() + r * ld; }
  const float* row(std::int64_t r) const { return data.data() + r * ld; }
};

// Dense rows of a tensor in f32 or bf16.
Matrix load(Dtype, const void* from, std::int64_t rows, std::int64_t cols);
void store(const Matrix&, Dtype, void* to);
// Rows [first, first + part.rows) of a dense tensor.
void store_rows(const Matrix& part, Dtype, void* to, std::int64_t first);

Matrix transposed(const Matrix&);
Matrix times_transposed(int threads, const Matrix& x, const Matrix& w);  // x w^T
Matrix times(int threads, const Matrix& y, const Matrix& w);             // y w
// Sum over rows [first, last) of y_r^T x_r, stored to a dense tensor.
void transposed_times(int threads, const Matrix& y, const Matrix& x, std::int64_t first,
                      std::int64_t last, Dtype, void* to);
void add(Matrix& to, const Matrix& what);

}  // namespace parity::moe_kernel
