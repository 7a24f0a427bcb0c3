// LibTorch's eager forms and the CPU kernel are written apart from each other and must agree.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/kda/workload.hpp"

namespace parity::kda_kernel {
namespace {

double distance(const Tensor& got, const Tensor& want) {
  const std::vector<double> x = got.widened(), y = want.widened();
  double worst = 0, square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) return INFINITY;
    worst = std::max(worst, std::abs(x[i] - y[i]));
    square += y[i] * y[i];
  }
  return worst / std::sqrt(square / static_cast<double>(x.size()));
}

TEST(KdaTorch, EagerFormsAgreeWithTheKernel) {
  constexpr const char* kSizes = "B2,T70,H2,K32,V48";
  Workload want(*registry().kernel("kda.chunked_f32"), kSizes, Dtype::F32, "chunk=32");
  want.forward(1, true);
  want.backward(1);
  struct Form {
    const char *kernel, *options;
  };
  for (const Form& form : {Form{"kda.torch_chunk_f32", "chunk=64"},
                           Form{"kda.torch_chunk_f32", "chunk=32,diagonal=anchored"},
                           Form{"kda.torch_loop_f32", ""}}) {
    Workload got(*registry().kernel(form.kernel), kSizes, Dtype::F32, form.options);
    got.forward(1, false);
    got.backward(1);
    for (const char* name :
         {"o", "final_state", "grads/q", "grads/k", "grads/v", "grads/g", "grads/beta"})
      EXPECT_LT(distance(got.result(name), want.result(name)), 1e-4)
          << form.kernel << " " << form.options << " " << name;
  }
}

}  // namespace
}  // namespace parity::kda_kernel
