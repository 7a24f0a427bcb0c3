// The hand-written backward of mla and attention against LibTorch's autograd in fp64, by parameter.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"

namespace parity {
namespace {

class LatentAttention : public testing::TestWithParam<const char*> {};

std::vector<TensorView> views(std::vector<Tensor>& tensors) {
  std::vector<TensorView> list;
  for (Tensor& t : tensors) list.push_back({.spec = &t.spec, .data = t.bytes.data()});
  return list;
}

TEST_P(LatentAttention, AgreesWithAutograd) {
  const Case c = resolve(registry(), parse_id(GetParam()));
  const OpDef& op = registry().op_or_throw(c.op);
  const KernelDef* kernel =
      registry().kernel(c.op == "mla" ? "mla.torch_f64" : "attention.torch_math_f64");
  ASSERT_NE(kernel, nullptr);
  const Options none;
  ASSERT_EQ(kernel->refuses(c, none), "");
  Tensors inputs = generate(c, op, 1);
  std::vector<Tensor> results, gradients;
  for (TensorSpec& spec : op.outputs(c))
    (spec.role == Role::Gradient ? gradients : results).push_back(make_tensor(std::move(spec)));
  const std::vector<TensorView> in = views(inputs.list()), out = views(results),
                                grads = views(gradients);
  kernel->forward({.problem = c, .options = none, .inputs = in, .outputs = out});
  kernel->backward({.problem = c, .options = none, .inputs = in, .outputs = grads});
  const Expected ours = op.reference(c, inputs, true);
  std::ranges::move(gradients, std::back_inserter(results));
  ASSERT_EQ(ours.tensors.size(), results.size());
  for (const Tensor& theirs : results) {
    const ExpectedTensor* x = ours.find(theirs.spec.name);
    ASSERT_NE(x, nullptr) << theirs.spec.name;
    double largest = 1e-30;
    for (const double v : x->value)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    const std::vector<double> values = theirs.widened();
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], x->value[i], 1e-10 * largest)
          << theirs.spec.name << " at " << letters(x->spec.dims, static_cast<std::int64_t>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, LatentAttention,
    testing::Values(
        "mla/B2,T20,D24,H3,Q10,C8,N6,R4,V5/f64/normal/gate=1/s1",
        "mla/B2,T9,D24,H3,Q10,C8,N6,R4,V5/f64/tiny/absorb=1,eps=1e-05,gate=1/s1",
        "mla/B1,T3+1+18,D20,H2,C10,N4,R2,V6/f64/normal/rope=interleaved/s1",
        "mla/B2,T12,D20,H3,Q9,C8,N4,R6,V5/f64/normal/bias=1,rope=half,theta=100/s1",
        "mla/B2,T12,D20,H3,Q9,C8,N4,R6,V5/f64/normal/"
        "mscale=0.707,mscale_all=1.5,original=64,rope=interleaved,theta=100,yarn=40/s1",
        "mla/B2,T9,D20,H2,Q8,C6,N4,R4,V5/f64/normal/gate=1,mask=given/s1",
        "mla/B2,T9,D20,H2,Q8,C6,N4,R4,V5/f64/normal/gate=1,mask=given,masked=leak/s1",
        "mla/B2,T9,D20,H2,Q8,C6,N4,R4,V5/f64/normal/mask=full/s1",
        "mla/B2,T9,D20,H2,Q8,C6,N4,R4,V5/f64/normal/absorb=1,rope=angles/s1",
        "mla/B2,T3,D20,H2,Q8,C6,N4,R4,V5,P7/f64/normal/absorb=1,gate=1,rope=interleaved/s1",
        "attention/B2,T21,H4,G2,D16,V8/f64/normal/s1", "attention/B1,T33,S50,H3,D16/f64/sharp/s1",
        "attention/T4+30,S20+39,H4,G1,D8,V24/f64/normal/s1",
        "attention/B1,T20,S33,H2,D8/f64/normal/causal=0/s1"));

}  // namespace
}  // namespace parity
