// The invariants see what they are for: kernels made of the reference, right and with one defect.
#include "references/kda/invariants.hpp"

#include <algorithm>
#include <gtest/gtest.h>

#include "references/kda/test_cases.hpp"

namespace parity::kda {
namespace {

Tensors launch(const Case& c, const Tensors& inputs) {
  Tensors out;
  for (const ExpectedTensor& x : registry().op_or_throw("kda").reference(c, inputs, true).tensors)
    out.add(make_tensor(x.spec, x.value));
  return out;
}

std::vector<BitDifference> check(std::string_view name, const Case& c, const RunKernel& kernel,
                                 const Options& options = {}) {
  for (const Invariant& invariant : invariant_list())
    if (invariant.name == name) {
      EXPECT_EQ(invariant.applies(c, options), "");
      return invariant.differences(c, test::draw_inputs(c), options, kernel);
    }
  ADD_FAILURE() << name;
  return {};
}

const RunKernel kSound = [](const Case& c, const Tensors& in, const Options&, int) {
  return launch(c, in);
};

TEST(Invariants, ASoundKernelHoldsAll) {
  const Case batch = test::small_case("B3,T9,H1,HV2,K4,V3", "dht=1,h0=1");
  const Case packed =
      test::small_case("B1,T5+0+70+2,H1,K4,V3", "bias=1,dht=1,gate=lower,h0=1,vfirst=1");
  const Case bare = test::small_case("B1,T66,H1,K4,V3", "");
  for (const Case& c : {batch, packed}) {
    EXPECT_TRUE(check("batch", c, kSound).empty());
    EXPECT_TRUE(check("causal", c, kSound).empty());
  }
  for (const Case& c : {packed, bare}) EXPECT_TRUE(check("split", c, kSound).empty());
}

TEST(Invariants, EachSeesItsDefect) {
  const Case batch = test::small_case("B2,T9,H1,K4,V3", "dht=1,h0=1");
  const RunKernel by_batch = [](const Case& c, const Tensors& in, const Options&, int) {
    Tensors out = launch(c, in);
    if (c.sizes["B"] > 1) out.find("o")->as<double>()[5] += 1e-15;
    return out;
  };
  const auto found = check("batch", batch, by_batch);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].tensor, "o");
  EXPECT_EQ(found[0].differing, 1);
  EXPECT_EQ(found[0].first, 5);

  const RunKernel by_length = [](const Case& c, const Tensors& in, const Options&, int) {
    Tensors out = launch(c, in);
    if (c.sizes["T"] < 66) out.find("grads/q")->as<double>()[0] += 1e-15;
    return out;
  };
  EXPECT_EQ(check("split", test::small_case("B1,T66,H1,K4,V3", ""), by_length).size(), 2U);

  const RunKernel peeking = [](const Case& c, const Tensors& in, const Options&, int) {
    Tensors out = launch(c, in);
    out.find("o")->as<double>()[0] += 1e-9 * in.at("g").as<double>().back();
    return out;
  };
  EXPECT_FALSE(check("causal", test::small_case("B1,T22,H1,K4,V3", ""), peeking).empty());
}

TEST(Invariants, SayWhereTheyDoNotApply) {
  const Case one = test::small_case("B1,T1,H1,K4,V3", "");
  for (const Invariant& invariant : invariant_list())
    EXPECT_NE(invariant.applies(one, {}), "") << invariant.name;
}

TEST(WrongAnswers, ForgetAndOnlyWhereThereIsSomethingToForget) {
  EXPECT_TRUE(wrong_answers(test::small_case("B1,T16,H1,K4,V3", ""),
                            test::draw_inputs(test::small_case("B1,T16,H1,K4,V3", "")))
                  .empty());
  const Case c = test::small_case("B1,T20,H1,K4,V3", "");
  const Tensors inputs = test::draw_inputs(c);
  const auto wrong = wrong_answers(c, inputs);
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].first, "history");
  const std::vector<double> right = launch(c, inputs).at("o").widened();
  const std::vector<double>& o = wrong[0].second[0].value;
  EXPECT_TRUE(std::equal(o.begin(), o.begin() + 48, right.begin()));
  EXPECT_FALSE(std::equal(o.begin() + 48, o.end(), right.begin() + 48));
}

}  // namespace
}  // namespace parity::kda
