// LibTorch's eager modules in fp64 against the hand-written references: every output and every
// gradient, parameter by parameter.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"
#include "kernels/moe/workload.hpp"

namespace parity::moe_kernel {
namespace {

constexpr double kAgreement = 1e-10;  // of the largest value of a tensor

double distance(const Tensor& got, const ExpectedTensor& want) {
  const std::vector<double> x = got.widened();
  double worst = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) return INFINITY;
    worst = std::max(worst, std::abs(x[i] - want.value[i]));
    size = std::max(size, std::abs(want.value[i]));
  }
  return size > 0 ? worst / size : worst;
}

int compare(const OpDef& op, const KernelDef& kernel, Case c) {
  if (!kernel.refuses(c, {}).empty()) return 0;
  c.dtype = Dtype::F64;
  const Tensors inputs = generate(c, op, 1);
  const Expected expected = op.reference(c, inputs, true);
  Workload work(op, c, inputs);
  work.forward(kernel, 1);
  work.backward(kernel, 1);
  for (const Tensors* results : {&work.outputs(), &work.gradients()})
    for (const Tensor& t : results->list())
      EXPECT_LT(distance(t, *expected.find(t.spec.name)), kAgreement)
          << c.id() << " " << t.spec.name;
  return 1;
}

TEST(MoeTorch, EagerModulesAgreeWithTheReferences) {
  for (const char* name : {"router", "latent_moe", "moe", "moe_experts"}) {
    const OpDef& op = registry().op_or_throw(name);
    const KernelDef* kernel = registry().kernel(std::string(name) + ".torch_f64");
    ASSERT_NE(kernel, nullptr);
    int compared = 0;
    for (const Case& c : expand(registry(), Lane::Smoke))
      if (c.op == name && c.check == Check::Parity && c.dtype != Dtype::BF16)
        compared += compare(op, *kernel, c);
    EXPECT_GT(compared, 0) << name;
  }
}

}  // namespace
}  // namespace parity::moe_kernel
