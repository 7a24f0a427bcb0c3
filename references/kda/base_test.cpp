// The base against the truth: at f32 within the bound, at narrow contracts by as much as they
// store.
#include "references/kda/base.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

#include "harness/failure.hpp"
#include "references/kda/faults.hpp"
#include "references/kda/points.hpp"
#include "references/kda/test_cases.hpp"

namespace parity::kda {
namespace {

struct Judged {
  double used = 0;  // largest error over u (|x*| + m)
  double rel_l2 = 0;
};

std::map<std::string, Judged> judge_base(const Case& c, const Contract& contract, int variation,
                                         std::string_view fault = "") {
  const Tensors inputs = test::draw_inputs(c);
  const Expected truth = registry().op_or_throw("kda").reference(c, inputs, true);
  const Evaluation got = base({.problem = c,
                               .contract = contract,
                               .inputs = inputs,
                               .variation = variation,
                               .seed = 5,
                               .fault = fault});
  std::map<std::string, Judged> judged;
  EXPECT_EQ(got.size(), truth.tensors.size());
  for (const ExpectedTensor& want : truth.tensors) {
    const auto values = std::ranges::find(got, want.spec.name, &Values::name);
    if (values == got.end() || values->value.size() != want.value.size()) {
      ADD_FAILURE() << want.spec.name;
      continue;
    }
    double error_2 = 0, norm_2 = 0;
    Judged& j = judged[want.spec.name];
    for (std::size_t i = 0; i < want.value.size(); ++i) {
      const double error = std::abs(values->value[i] - want.value[i]);
      error_2 += error * error;
      norm_2 += want.value[i] * want.value[i];
      const double allowed = 0x1p-24 * (std::abs(want.value[i]) + want.scale[i]) + 0x1p-126;
      j.used = error <= allowed * 1e9 ? std::max(j.used, error / allowed) : 1e9;
    }
    j.rel_l2 = std::sqrt(error_2 / std::max(norm_2, 1e-300));
  }
  return judged;
}

class Forms : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Forms, AgreeWithTheTruthInF32) {
  const Case c = test::small_case(GetParam().first, GetParam().second, Dtype::F32);
  ASSERT_EQ(refuses(c), "");
  for (const std::int64_t chunk : {0, 16, 32, 64})
    for (const int variation : {0, 1, 2})
      for (const auto& [name, judged] : judge_base(c, {.name = "f32", .chunk = chunk}, variation))
        EXPECT_LE(judged.used, 4) << name << " chunk " << chunk << " variation " << variation;
}

TEST_P(Forms,
       AgreeThroughTheInverse) {  // stored in f32's own format: nothing is rounded, but M is formed
  const Case c = test::small_case(GetParam().first, GetParam().second, Dtype::F32);
  const Contract contract{
      .name = "inverse",
      .chunk = 64,
      .roundings = {{.where = "merge", .to = Dtype::TF32, .mode = Rounding::NearestEven}}};
  for (const auto& [name, judged] : judge_base(c, contract, 0))
    EXPECT_LE(judged.rel_l2, 0.05) << name;
}

INSTANTIATE_TEST_SUITE_P(
    Base, Forms,
    testing::Values(
        std::pair{"B2,T70,H2,HV4,K9,V6", "dht=1,h0=1"},
        std::pair{"B1,T3+0+1+67,H1,HV2,K8,V8", "dht=1,h0=1,vfirst=1"},
        std::pair{"B1,T37,H1,HV2,K8,V5", "bias=1,dht=1,gate=softplus,h0=1,l2norm=1,taps=1"},
        std::pair{"B1,T37,H1,HV2,K8,V5", "beta=neg,bias=1,dht=1,gate=lower,h0=1,l2norm=1,taps=1"},
        std::pair{"B1,T37,H2,K8,V5", "dht=1,h0=1,headwise=1,scale=0.7"},
        std::pair{"B1,T5+4+6,H1,K4,V4", "unused=1"}, std::pair{"B1,T1,H1,K1,V1", ""}));

TEST(Base, NarrowStorageCostsWhatTheSpecificationSays) {
  const Case c = test::small_case("B1,T130,H2,K64,V64", "dht=1,h0=1,l2norm=1", Dtype::BF16);
  const Contract contract = contract_of(c, {});
  EXPECT_EQ(contract.fidelity, Fidelity::Faithful);
  for (const int variation : {0, 1, 2})  // kda.md §6.1 has 2e-3 .. 9e-3 on ordinary fills
    for (const auto& [name, judged] : judge_base(c, contract, variation)) {
      EXPECT_LE(judged.rel_l2, 1.2e-2) << name;
      EXPECT_GE(judged.rel_l2, 2e-4) << name;
    }
}

TEST(Base, VariantsDifferFromEachOther) {
  const Case c = test::small_case("B1,T40,H1,K16,V8", "", Dtype::F32);
  const Tensors inputs = test::draw_inputs(c);
  const Contract contract{.name = "f32", .chunk = 16};
  std::vector<std::vector<double>> o;
  for (int v = 0; v <= 8; ++v) {
    const Evaluation e =
        base({.problem = c, .contract = contract, .inputs = inputs, .variation = v, .seed = 1});
    EXPECT_EQ(e[0].name, "o");
    EXPECT_TRUE(std::ranges::find(o, e[0].value) == o.end()) << v;
    o.push_back(e[0].value);
  }
}

TEST(Base, RefusesAPointItDoesNotKnow) {
  EXPECT_THROW((void)points_of({.name = "x", .roundings = {{.where = "nowhere"}}}), Failure);
  EXPECT_THROW((void)parse_fault("F-0"), Failure);
  EXPECT_EQ(parse_fault(""), Fault::None);
}

TEST(Base, EveryFaultIsEitherShownOrExplained) {
  std::vector<std::string_view> ids;
  for (const FaultDef& fault : fault_list()) {
    EXPECT_FALSE(fault.what.empty());
    EXPECT_TRUE(std::ranges::find(ids, fault.id) == ids.end()) << fault.id;
    ids.push_back(fault.id);
    EXPECT_EQ(parse_fault(fault.id) == Fault::Unsupported, !fault.unsupported.empty()) << fault.id;
  }
}

TEST(Contracts, FollowTheAttributesOfARecording) {
  const Case c = test::small_case("B1,T10,H1,K8,V8", "bias=1,gate=lower,l2norm=1", Dtype::BF16);
  const Contract old = contract_of(c, {{"chunk", "32"},
                                       {"source", "flash-linear-attention 0.4.2 x"},
                                       {"operand_rounding",
                                        "bfloat16 between kernels; float32 products inside a chunk "
                                        "as tf32 truncated, diagonal blocks too"}});
  EXPECT_EQ(old.chunk, 32);
  ASSERT_TRUE(old.rounding("diagonal") && old.rounding("dbias") && old.rounding("dqk"));
  EXPECT_EQ(old.rounding("products")->mode, Rounding::TowardZero);
  const Contract exact = contract_of(c, {{"source", "flash-linear-attention 0.6.0"},
                                         {"operand_rounding",
                                          "bfloat16 between kernels; float32 products inside a "
                                          "chunk as tf32, diagonal blocks exact"}});
  EXPECT_EQ(exact.chunk, 64);
  EXPECT_FALSE(exact.rounding("diagonal") || exact.rounding("dbias"));
  EXPECT_TRUE(
      contract_of(test::small_case("B1,T1,H1,K1,V1", "", Dtype::F32), {}).roundings.empty());
}

}  // namespace
}  // namespace parity::kda
