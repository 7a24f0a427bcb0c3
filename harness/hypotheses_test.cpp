// Causes are found where they are known: a fault, an arithmetic, a right result in the wrong place.
#include "harness/hypotheses.hpp"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

#include "harness/forms.hpp"

namespace parity {
namespace {

class Causes : public testing::Test {
 protected:
  const Case problem = resolve(registry(), parse_id("l2norm/N44,D128/f32/normal/s0"));
  const OpDef& op = registry().op_or_throw("l2norm");
  const Subject subject = subject_of(problem, "");
  const Contract contract{.name = "f32", .dtypes = {Dtype::F32}};
  const Explainer explainer{subject, contract, Direction::Both};

  Tensors returned(const std::string& fault, int variation = 0) const {
    const Candidate candidate = base_candidate(op, contract, fault, variation);
    return candidate.run({.problem = problem, .inputs = subject.inputs()}).tensors;
  }
  Tensors changed(const std::function<double(std::size_t, double)>& how) const {
    Tensors tensors = returned("");
    for (Tensor& tensor : tensors.list()) {
      std::vector<double> values = tensor.widened();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = how(i, values[i]);
      tensor = make_tensor(tensor.spec, values);
    }
    return tensors;
  }
};

TEST_F(Causes, OtherNoiseIsNoCause) {
  for (const int variation : {0, kVariants + 1}) {
    const Explained e = explainer.explain(returned("", variation));
    EXPECT_EQ(e.cause, Cause::Noise) << variation << " " << e.ranked.front().name << " "
                                     << e.ranked.front().distance.loss << " < " << e.right.loss;
  }
}

TEST_F(Causes, EveryFaultIsNamedAlsoAtOtherNoise) {
  for (const FaultDef& fault : op.faults) {
    if (fault.id == "A-NR04" || fault.id == "P-eps-mean" || fault.id == "P-l2-max")
      continue;  // eps shows in small rows only
    const Explained e = explainer.explain(returned(std::string(fault.id), kVariants + 1));
    ASSERT_EQ(e.cause, Cause::Named) << fault.id;
    EXPECT_EQ(e.ranked.front().name, fault.id);
  }
}

TEST_F(Causes, ARightResultInTheWrongPlaceIsNamed) {
  const auto name_of = [&](const Tensors& tensors) {
    const Explained e = explainer.explain(tensors);
    return e.cause == Cause::Named ? e.ranked.front().name : "none";
  };
  EXPECT_EQ(name_of(changed([](std::size_t, double v) { return -v; })),
            "y: negated; grads/x: negated");
  EXPECT_EQ(name_of(changed([](std::size_t, double v) { return v / 128; })),
            "y: times 0.0078125 (1/D); grads/x: times 0.0078125 (1/D)");
  EXPECT_EQ(name_of(changed([](std::size_t i, double v) { return i >= 40 * 128 ? 0 : v; })),
            "y: zero from n=40 on; grads/x: zero from n=40 on");
  EXPECT_EQ(name_of(changed([](std::size_t, double v) { return round_to(Dtype::BF16, v); })),
            "y: kept in bf16 on the way; grads/x: kept in bf16 on the way");
}

TEST_F(Causes, NarrowOperandsAreNamed) {
  Tensors narrow = subject.inputs();
  for (Tensor& tensor : narrow.list()) {
    std::vector<double> values = tensor.widened();
    for (double& v : values) v = round_to(Dtype::TF32, v);
    tensor = make_tensor(tensor.spec, values);
  }
  const Explained e = explainer.explain(
      base_candidate(op, contract, "").run({.problem = problem, .inputs = narrow}).tensors);
  EXPECT_EQ(e.cause, Cause::Named);
  EXPECT_EQ(e.ranked.front().name, "operands rounded to tf32");
}

TEST_F(Causes, WhatNobodyKnowsIsNotNamed) {
  const Explained e =
      explainer.explain(changed([](std::size_t i, double v) { return i % 7 == 3 ? 2 * v : v; }));
  EXPECT_EQ(e.cause, Cause::Unknown);
}

TEST_F(Causes, NaNIsFarFromEverything) {
  const Explained e = explainer.explain(changed([](std::size_t, double) { return std::nan(""); }));
  EXPECT_EQ(e.cause, Cause::Unknown);
  EXPECT_EQ(e.right.units(), kFarthest);
}

TEST_F(Causes, AFaultMayBeLeftOut) {
  const Explained e = explainer.explain(
      returned("P-l2-dot"),
      [](const std::string& fault, const std::string&) { return fault != "P-l2-dot"; });
  EXPECT_NE(e.cause, Cause::Named);
}

}  // namespace
}  // namespace parity
