#include "kernels/linear/gemm.hpp"

#include <algorithm>

#include "harness/registry.hpp"
#include "kernels/kda/parallel.hpp"

namespace parity::linear_kernel {

const float kE2m1Values[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                               -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
const float kInt4Values[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};

const Steps& best_steps() {
  if (missing_capability("avx512").empty()) return kAvx512Steps;
  if (missing_capability("avx2").empty()) return kAvx2Steps;
  return kPlainSteps;
}

void multiply(const Steps& steps, int threads, const Rows& rows, const Weights& w) {
  constexpr std::int64_t kPortion = 32;  // columns handed out at a time
  kda_kernel::for_each_item(threads, (w.N + kPortion - 1) / kPortion, [&] {
    return [&](std::int64_t portion) {
      steps.columns(rows, w, portion * kPortion, std::min(w.N, (portion + 1) * kPortion));
    };
  });
}

}  // namespace parity::linear_kernel
