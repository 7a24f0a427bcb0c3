#include "references/kda/rows.hpp"

namespace parity::kda {
namespace {
#include "references/kda/rows.inl"
}  // namespace

const Rows kRows = {decay, write, add, adjoint, close, dot};

const Rows& rows() {
  static const Rows& chosen =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
          ? kRowsAvx512
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kRowsAvx2
                                                                        : kRows;
  return chosen;
}

}  // namespace parity::kda
