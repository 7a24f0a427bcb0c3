// The hand-derived backward against central differences in fp64.
#include <algorithm>
#include <gtest/gtest.h>

#include "harness/registry.hpp"
#include "references/kda/test_cases.hpp"

namespace parity::kda {
namespace {

// Two central differences, extrapolated (Richardson): the error is h^4.
double slope(const Case& c, Tensors& inputs, Tensor& t, std::size_t i) {
  double& x = t.as<double>()[i];
  const double at = x, h = 2e-4 * std::max(1.0, std::abs(at));
  const auto central = [&](double step) {
    x = at + step;
    const double up = test::loss(c, inputs);
    x = at - step;
    const double down = test::loss(c, inputs);
    x = at;
    return (up - down) / (2 * step);
  };
  return (4 * central(h / 2) - central(h)) / 3;
}

class Differences : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Differences, MatchTheBackward) {
  const Case c = test::small_case(GetParam().first, GetParam().second);
  ASSERT_EQ(refuses(c), "");
  Tensors inputs = test::draw_inputs(c);
  const Expected expected = registry().op_or_throw("kda").reference(c, inputs, true);
  int compared = 0;
  for (Tensor& t : inputs.list()) {
    const ExpectedTensor* gradient = expected.find("grads/" + t.spec.name);
    if (!gradient) continue;
    double largest = 1e-3;
    for (const double g : gradient->value) largest = std::max(largest, std::abs(g));
    for (std::size_t i = 0; i < gradient->value.size(); ++i, ++compared)
      ASSERT_NEAR(slope(c, inputs, t, i), gradient->value[i], 2e-9 * largest)
          << t.spec.name << " at " << letters(t.spec.dims, static_cast<std::int64_t>(i));
  }
  EXPECT_GT(compared, 40);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, Differences,
    testing::Values(
        std::pair{"B2,T3,H1,K3,V2", ""}, std::pair{"B1,T4,H1,HV2,K3,V2", "dht=1,h0=1"},
        std::pair{"B1,T4,H2,HV4,K2,V3", "dht=1,h0=1,scale=0.7,vfirst=1"},
        std::pair{"B1,T2+0+1+3,H1,K3,V3", "dht=1,h0=1"},
        std::pair{"B1,T2+1+2,H1,K3,V3", "dht=1,h0=1,unused=1"},
        std::pair{"B1,T4,H1,HV2,K3,V2", "bias=1,dht=1,gate=softplus,h0=1,l2norm=1"},
        std::pair{"B1,T4,H1,HV2,K3,V2", "beta=neg,bias=1,dht=1,gate=lower,h0=1,l2norm=1"},
        std::pair{"B1,T4,H2,K3,V2", "beta=sigmoid,dht=1,gate=lower_noA,lb=-2"},
        std::pair{"B1,T4,H1,K3,V2", "bias=1,gate=lower_noA"},
        std::pair{"B1,T4,H1,HV2,K3,V2", "dht=1,h0=1,headwise=1"},
        std::pair{"B1,T35,H1,K2,V2", "dht=1,h0=1,l2norm=1"}));  // more than two checkpoints

TEST(Backward, ZeroBetaNeedsNoDivision) {
  const Case c = test::small_case("B1,T5,H1,K4,V3", "dht=1,h0=1");
  Tensors inputs = test::draw_inputs(c);
  std::ranges::fill(inputs.find("beta")->as<double>(), 0);
  const test::Answer x = test::solve(c, inputs);
  for (const double v : x.d.v.value) EXPECT_EQ(v, 0);
  for (const double k : x.d.k.value) EXPECT_EQ(k, 0);
  EXPECT_TRUE(std::ranges::any_of(x.d.beta.value, [](double b) { return std::abs(b) > 1e-3; }));
}

}  // namespace
}  // namespace parity::kda
