// The decoder in LibTorch in fp64 against the hand-written reference: every output, tap and
// gradient, by name.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "harness/walk.hpp"

namespace parity {
namespace {

class EagerDecoder : public testing::TestWithParam<const char*> {};

std::vector<TensorView> views(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> list;
  for (const Tensor& t : tensors)
    list.push_back({.spec = &t.spec, .data = const_cast<std::byte*>(t.bytes.data())});
  return list;
}

TEST_P(EagerDecoder, AgreesWithTheReference) {
  const Case c = resolve(registry(), parse_id(GetParam()));
  const OpDef& op = registry().op_or_throw(c.op);
  const KernelDef* kernel = registry().kernel(c.op + ".torch_f64");
  ASSERT_NE(kernel, nullptr);
  ASSERT_EQ(kernel->refuses(c, {}), "");
  Tensors inputs = generate(c, op, 1);
  std::vector<Tensor> results, gradients;
  for (TensorSpec& spec : op.outputs(c))
    (spec.role == Role::Gradient ? gradients : results).push_back(make_tensor(std::move(spec)));
  const Options none;
  const std::vector<TensorView> in = views(inputs.list()), out = views(results),
                                grads = views(gradients);
  kernel->forward({.problem = c, .options = none, .inputs = in, .outputs = out});
  kernel->backward({.problem = c, .options = none, .inputs = in, .outputs = grads});
  const Expected ours = op.reference(c, inputs, true);
  std::ranges::move(gradients, std::back_inserter(results));
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

// Sizes and options as in cases/decoder.cpp.
#define PARITY_K3                                                                                 \
  "conv=3,dense=1,ehid=6,experts=4,ffn=20,heads=2,kda=4,kl=6,latent=8,nope=4,ql=8,rope=4,shared=" \
  "6,"

INSTANTIATE_TEST_SUITE_P(
    Forms, EagerDecoder,
    testing::Values(
        "decoder/B2,T8,D16,V24,L2/f64/unit_scale/block=1," PARITY_K3 "full=1,loss=1,topk=2,vd=4/s1",
        "decoder/B2,T8,D16,V24,L5/f64/unit_scale/block=2," PARITY_K3
        "full=1+4,taps=1,topk=2,vd=4/s1",
        "decoder/B2,T8,D16,V24,L5/f64/unit_scale/block=2," PARITY_K3
        "full=1+4,isolated=1,replay=1,taps=1,topk=2,vd=4/s1",
        "decoder/B1,T9,D16,V24,L3/f64/unit_scale/act=silu,gate=softplus,output=low," PARITY_K3
        "full=none,loss=1,renorm=0,score=softmax,shift=1,taps=1,topk=2,vd=4/s1",
        "decoder/B2,T7,D16,V24,L3/f64/unit_scale/act=silu,dense=1,ehid=6,experts=4,ffn=20,heads=2,"
        "kl=6,mla_gate=0,nope=4,rope=4,rotary=half,shared=6,theta=100,topk=2,vd=4/s1",
        "attn_res_stack/B2,T6,D16,V24,L5/f64/unit_scale/"
        "block=2,ffn=12,heads=2,kl=5,nope=4,ql=6,rope=2,rotary=interleaved,taps=1,vd=4/s1"));

}  // namespace
}  // namespace parity
