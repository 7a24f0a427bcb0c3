#include "references/kda/dense.hpp"

namespace parity::kda {
namespace {
#include "references/kda/dense.inl"
}  // namespace

const Dense kDense = {multiply, exp2_row};

const Dense& dense() {
  static const Dense& chosen =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
          ? kDenseAvx512
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kDenseAvx2
                                                                        : kDense;
  return chosen;
}

}  // namespace parity::kda
