// The eager tower and scatter, in fp64 and by autograd, against the references' formulas and their
// hand-derived gradients: every result and every parameter to 1e-10 of its largest element.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"

namespace parity {
namespace {

void agree(const ExpectedTensor& want, const Tensor& got, const std::string& id) {
  const std::vector<double> values = got.widened();
  ASSERT_EQ(values.size(), want.value.size()) << id << " " << want.spec.name;
  double size = 0, apart = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    size = std::max(size, std::abs(want.value[i]));
    const double gap = std::abs(values[i] - want.value[i]);
    apart = std::isfinite(gap) ? std::max(apart, gap) : INFINITY;
  }
  // A bias of keys has no gradient: what is left of it is noise of the size of one.
  EXPECT_LE(apart, 1e-10 * std::max(size, 1e-5)) << id << " " << want.spec.name;
}

int compare(const char* kernel_name) {
  const KernelDef& kernel = *registry().kernel(kernel_name);
  const OpDef& op = registry().op_or_throw(kernel.op);
  int cases = 0;
  for (const Case& c : expand(registry(), Lane::Smoke)) {
    if (c.op != op.name || c.dtype != Dtype::F64 || !kernel.refuses(c, {}).empty()) continue;
    const Tensors inputs = generate(c, op, 1);
    const Expected expected = op.reference(c, inputs, true);
    const Observed observed = candidate_of(kernel, {}, c).run({.problem = c, .inputs = inputs});
    for (const ExpectedTensor& want : expected.tensors)
      agree(want, observed.tensors.at(want.spec.name), c.id());
    ++cases;
  }
  return cases;
}

TEST(VisionTorch, TowersAgree) { EXPECT_GE(compare("vision_tower.torch_f64"), 7); }

TEST(VisionTorch, ScattersAgree) { EXPECT_GE(compare("vision_scatter.torch_f64"), 4); }

}  // namespace
}  // namespace parity
