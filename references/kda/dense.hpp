// Small dense products and exponentials in f32, for the base. Compiled three times (dense.cpp,
// dense_avx2.cpp, dense_avx512.cpp from dense.inl) and chosen at run time; nothing is contracted,
// so the bits are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace parity::kda {

// A matrix that is read element by element: rows and columns a stride apart. Transposing swaps the
// strides.
struct Strided {
  const float* data = nullptr;
  std::size_t row = 0, column = 0;
};

struct Dense {
  // c[n][m] = sum over k of a[n][k] b[k][m], added up in the order `order` (null: ascending). c and
  // b have rows of m.
  void (*multiply)(float* c, Strided a, const float* b, std::size_t n, std::size_t m, std::size_t k,
                   const std::uint16_t* order);
  void (*exp2)(float* y, const float* x, std::size_t n);  // to about one ulp; exact at integers
};

extern const Dense kDense;
extern const Dense kDenseAvx2;
extern const Dense kDenseAvx512;
const Dense& dense();

}  // namespace parity::kda
