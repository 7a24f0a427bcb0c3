// The hand-written backward against LibTorch's autograd through another formulation.
#include <algorithm>
#include <gtest/gtest.h>

#include "references/kda/test_cases.hpp"
#include "references/model/kda_recurrence.hpp"

namespace parity::kda {
namespace {

class Autograd : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Autograd, AgreesWithTheReference) {
  const Case c = test::small_case(GetParam().first, GetParam().second);
  ASSERT_EQ(refuses(c), "");
  const Tensors inputs = test::draw_inputs(c, 11);
  const auto other = model::kda_by_autograd(c, inputs);
  const Expected ours = registry().op_or_throw("kda").reference(c, inputs, true);
  EXPECT_GE(ours.tensors.size(), 7U);
  for (const ExpectedTensor& x : ours.tensors) {
    const auto found = other.find(x.spec.name);
    ASSERT_NE(found, other.end()) << x.spec.name;
    ASSERT_EQ(found->second.size(), x.value.size()) << x.spec.name;
    double largest = 1e-30;
    for (const double v : x.value) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < x.value.size(); ++i)
      ASSERT_NEAR(found->second[i], x.value[i], 1e-10 * largest)
          << x.spec.name << " at " << letters(x.spec.dims, static_cast<std::int64_t>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, Autograd,
    testing::Values(std::pair{"B2,T40,H2,HV4,K6,V5", "dht=1,h0=1"},
                    std::pair{"B1,T3+0+1+20,H1,HV2,K5,V5", "dht=1,h0=1,vfirst=1"},
                    std::pair{"B1,T7+9+4,H1,K4,V3", "dht=1,unused=1"},
                    std::pair{"B2,T30,H1,HV2,K6,V4",
                              "beta=sigmoid,bias=1,dht=1,gate=softplus,h0=1,l2norm=1,taps=1"},
                    std::pair{"B2,T30,H1,HV2,K6,V4",
                              "beta=neg,bias=1,dht=1,gate=lower,h0=1,l2norm=1,taps=1"},
                    std::pair{"B1,T30,H2,K6,V4", "gate=lower_noA,lb=-2,taps=1"},
                    std::pair{"B1,T30,H2,K6,V4", "dht=1,h0=1,headwise=1,scale=0.7"}));

}  // namespace
}  // namespace parity::kda
