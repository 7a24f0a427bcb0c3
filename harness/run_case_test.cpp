#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "harness/testing/scaled.hpp"
#include "harness/worker.hpp"

namespace parity {
namespace {

using test::scaled_case;
using ::testing::HasSubstr;

CaseRecord walk(const Subject& subject, const Candidate& candidate,
                const WalkOptions& options = {}) {
  Groundwork ground(subject, /*gradients=*/true);
  return run_case(subject, candidate, ground.known(candidate.contract), options);
}

// What a file would hold: the truth, rounded, as a candidate that is not launched.
struct Stored {
  Subject subject = subject_of(scaled_case("test_scaled", "N5,D7"), "");
  Observed observed = {};

  Stored() {
    subject.check = Check::Recording;
    subject.problem.recorded = "file:case";
    subject.command = "parity run --recording file.h5";
    const Tensors in = subject.inputs();
    for (const ExpectedTensor& t :
         registry().op_or_throw("test_scaled").reference(subject.problem, in, true).tensors)
      observed.tensors.add(make_tensor(t.spec, t.value));
  }
  Candidate candidate() const {
    Candidate c{.name = "recording.label",
                .contract = test::scaled_contract(),
                .hw_verified = true,
                .stored = true};
    c.run = [o = observed](const RunRequest&) { return o; };
    return c;
  }
  CaseRecord walked() const { return walk(subject, candidate()); }
};

TEST(RunCase, AStoredCandidateIsJudgedLikeALaunchedOne) {
  Stored s;
  const CaseRecord r = s.walked();
  EXPECT_EQ(r.status, "pass") << r.reason;
  EXPECT_EQ(r.tensors.size(), 3u);
  EXPECT_FALSE(r.seed.has_value());
  EXPECT_FALSE(r.hw_verified);  // nothing executed here
  EXPECT_EQ(r.repro, "parity run --recording file.h5 '" + r.id + "'");
  // Its neighbours in the bits are launched kernels' business.
  s.observed.tensors.list()[0].bytes[3] ^= std::byte{0x40};
  EXPECT_EQ(s.walked().status, "fail");
}

TEST(RunCase, WhatAStoredCandidateLacksIsNotCompared) {
  Stored s;
  s.observed.tensors.list().pop_back();
  const CaseRecord r = s.walked();
  EXPECT_EQ(r.status, "pass") << r.reason;
  EXPECT_EQ(r.tensors.size(), 2u);
  s.observed.tensors.list().clear();
  EXPECT_EQ(s.walked().status, "unproven");  // nothing was compared
}

TEST(RunCase, BytesThatNobodyComparesAreNoProof) {
  Stored extra;
  Tensor stranger = extra.observed.tensors.list()[0];
  stranger.spec.name = "stranger";
  extra.observed.tensors.add(stranger);
  CaseRecord r = extra.walked();
  EXPECT_EQ(r.status, "unproven");
  EXPECT_THAT(r.accounting.complaints,
              ::testing::ElementsAre("'stranger' has no truth to compare it with"));

  Stored twice;
  twice.observed.tensors.add(twice.observed.tensors.list()[0]);
  r = twice.walked();
  EXPECT_EQ(r.status, "unproven");
  EXPECT_THAT(r.accounting.complaints, ::testing::ElementsAre("'y' was produced twice"));

  Stored shorter;
  Tensor& y = shorter.observed.tensors.list()[0];
  y = make_tensor({.name = "y", .role = Role::Output, .dtype = Dtype::F32, .dims = {{"N", 5}}});
  r = shorter.walked();
  EXPECT_EQ(r.status, "unproven");
  EXPECT_THAT(r.accounting.complaints,
              ::testing::ElementsAre("'y' has 5 elements where the truth has 35"));
}

TEST(RunCase, RefusalsMustAgree) {
  Stored s;
  s.subject.check = Check::Golden;
  s.subject.judge_base = false;
  const auto status = [&](std::string truth, std::string candidate) {
    s.subject.truth = [truth](const Tensors&) { return Expected{.refused = truth}; };
    Observed o;
    o.refused = candidate;
    Candidate c = s.candidate();
    c.run = [o](const RunRequest&) { return o; };
    return walk(s.subject, c).status;
  };
  EXPECT_EQ(status("K too large", "K is at most 256"), "pass");
  EXPECT_EQ(status("K too large", ""), "fail");
  EXPECT_EQ(status("", "K is at most 256"), "fail");
}

TEST(RunCase, TroubleIsData) {
  const Case problem = scaled_case("test_scaled", "N5,D7");
  const Subject subject = subject_of(problem);
  Candidate c = subject.candidates.at(0);
  const auto kind_of = [&](std::function<Observed(const RunRequest&)> run) {
    c.run = std::move(run);
    const CaseRecord r = walk(subject, c);
    EXPECT_EQ(r.status, "error");
    return r.error_kind;
  };
  EXPECT_EQ(kind_of([](const RunRequest&) -> Observed { throw std::bad_alloc(); }), "memory");
  EXPECT_EQ(kind_of([](const RunRequest&) -> Observed { throw Failure("odd"); }), "harness");
  EXPECT_EQ(kind_of([](const RunRequest&) -> Observed { throw 1; }), "harness");
  EXPECT_EQ(kind_of({}), "harness");
}

TEST(RunCase, ForwardOnlyKernelsAreAskedForNoGradient) {
  KernelDef kernel = test::scaled_kernel("test_scaled", "test_scaled.forward_only");
  kernel.backward = nullptr;
  kernel.saved = nullptr;
  const Case problem = scaled_case("test_scaled", "N5,D7");
  Subject subject = subject_of(problem, "");
  const Candidate c = candidate_of(kernel, {}, problem);
  CaseRecord r = walk(subject, c);
  EXPECT_EQ(r.status, "pass") << r.reason;
  EXPECT_EQ(r.direction, "forward");
  subject.direction = Direction::Backward;
  EXPECT_EQ(walk(subject, c).status, "unsupported");
}

TEST(RunCase, ABackwardWithoutSavedTensorsRunsWithoutItsForward) {
  KernelDef kernel = test::scaled_kernel("test_scaled", "test_scaled.alone");
  kernel.saved = nullptr;
  kernel.forward = [](const Launch&) { throw Failure("must not be called"); };
  kernel.backward = [](const Launch& l) {
    for (const TensorView& out : l.outputs) EXPECT_EQ(out.spec->role, Role::Gradient);
    EXPECT_NE(l.in<float>("cotangents/y"), nullptr);
    throw Failure("reached");
  };
  const Case problem = scaled_case("test_scaled", "N5,D7");
  Subject subject = subject_of(problem, "");
  subject.direction = Direction::Backward;
  const CaseRecord r = walk(subject, candidate_of(kernel, {}, problem));
  EXPECT_EQ(r.error_kind, "crash");
  EXPECT_THAT(r.reason, HasSubstr("backward threw: reached"));
}

TEST(RunCase, ForwardSeesNoCotangents) {
  KernelDef kernel = test::scaled_kernel("test_scaled", "test_scaled.nosy");
  kernel.forward = [](const Launch& l) {
    EXPECT_EQ(l.in<float>("cotangents/y"), nullptr);
    EXPECT_EQ(l.workspace.size(), 48u);
    test::forward(l);
  };
  const Case problem = scaled_case("test_scaled", "N5,D7");
  EXPECT_EQ(walk(subject_of(problem, ""), candidate_of(kernel, {}, problem)).status, "pass");
}

TEST(RunCase, TheBaseIsACandidateLikeAnyOther) {
  const Case problem =
      scaled_case("test_scaled", "N64,D33", Dtype::BF16, Check::Parity, {{"codes", "1"}});
  const OpDef& op = registry().op_or_throw("test_scaled");
  const Subject subject = subject_of(problem, "");
  EXPECT_EQ(walk(subject, base_candidate(op, test::scaled_contract(), "")).status, "pass");
  const CaseRecord held_out = walk(subject, base_candidate(op, test::scaled_contract(), "", 9));
  EXPECT_EQ(held_out.status, "pass") << held_out.reason;
  EXPECT_EQ(held_out.kernel, "test_scaled.base");
  EXPECT_FALSE(held_out.hw_verified);
  const CaseRecord faulty = walk(subject, base_candidate(op, test::scaled_contract(), "P-half"));
  EXPECT_EQ(faulty.status, "fail");
  EXPECT_EQ(faulty.fault, "P-half");
  EXPECT_EQ(faulty.repro, "parity mutate --only 'test_scaled.base!P-half'");
}

TEST(RunCase, VariantsRunInTheirLanes) {
  Case problem = scaled_case("test_scaled", "N5,D7");
  EXPECT_EQ(subject_of(problem).candidates.size(), 1u);
  problem.lane = Lane::Full;
  ASSERT_EQ(subject_of(problem).candidates.size(), 2u);
  EXPECT_EQ(subject_of(problem).candidates[1].options.str(), "threads=3");
  const Subject one = subject_of(problem, "test_scaled.plain", {{"threads", "5"}});
  ASSERT_EQ(one.candidates.size(), 1u);
  EXPECT_EQ(one.candidates[0].options.str(), "threads=5");
  EXPECT_THROW(subject_of(problem, "test_scaled.nothing", {}), UsageError);
}

}  // namespace
}  // namespace parity
