// The delta rule of a chunk without an inverse: (I + L) v' = beta (v - (k 2^G) S), row after row,
// and its transposed system. Better than M = (I + L)^-1 where nothing is stored narrow: M
// multiplies its own rounding errors, a substitution those of its right-hand side only.
#include "references/kda/chunk.hpp"

namespace parity::kda {

void solve_forward(const Chunk& c, Floats32& x, std::size_t columns) {
  for (std::size_t i = 0; i < c.n; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const float l = c.L[i * c.n + j];
      for (std::size_t p = 0; p < columns; ++p) x[i * columns + p] -= l * x[j * columns + p];
    }
}

void solve_backward(const Chunk& c, Floats32& x, std::size_t columns) {
  for (std::size_t i = c.n; i-- > 0;)
    for (std::size_t m = c.n; m-- > i + 1;) {
      const float l = c.L[m * c.n + i];
      for (std::size_t p = 0; p < columns; ++p) x[i * columns + p] -= l * x[m * columns + p];
    }
}

}  // namespace parity::kda
