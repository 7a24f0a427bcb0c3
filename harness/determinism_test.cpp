#include "harness/determinism.hpp"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>

#include "harness/suite.hpp"
#include "harness/testing/scaled.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

std::atomic<int> calls = 0;

float* y(const Launch& l) { return l.out<float>("y"); }
void drifts(const Launch& l) {
  test::forward(l);
  std::uint32_t bits = 0;
  std::memcpy(&bits, y(l), 4);
  bits ^= static_cast<std::uint32_t>(calls++ % 2);
  std::memcpy(y(l), &bits, 4);
}
void counts_threads(const Launch& l) {
  test::forward(l);
  if (l.threads == 3) y(l)[2] = -y(l)[2];
}
void sees_the_batch(const Launch& l) {
  test::forward(l);
  if (l.problem.sizes["N"] > 3) y(l)[0] *= 1.0f + 0x1p-22f;
}

CaseRecord judged(void (*forward)(const Launch&), Check check, int repeat,
                  Contract contract = test::scaled_contract()) {
  KernelDef kernel = test::scaled_kernel("test_scaled", "test_scaled.other");
  kernel.forward = forward;
  kernel.contract = std::move(contract);
  const Case problem = test::scaled_case("test_scaled", "N5,D7", Dtype::F32, check);
  Subject subject = subject_of(problem, "none");
  subject.candidates = {candidate_of(kernel, {}, problem)};
  SuiteOptions options;
  options.isolate = false;
  options.repeat = repeat;
  CaseRecord record;
  run_suite({subject}, options, [&](const CaseRecord& r) { record = r; });
  return record;
}

TEST(Determinism, SoundKernelsKeepTheirClaims) {
  for (const Check check : {Check::Parity, Check::Bitwise}) {
    const CaseRecord r = judged(test::forward, check, 3);
    EXPECT_EQ(r.status, "pass") << r.reason;
    EXPECT_EQ(r.accounting.compared, r.accounting.produced);
    EXPECT_EQ(r.repro.ends_with(" --bitwise"), check == Check::Bitwise) << r.repro;
  }
}

TEST(Determinism, ARepeatThatDiffersFails) {
  const CaseRecord once = judged(drifts, Check::Parity, 1);
  EXPECT_EQ(once.status, "pass") << once.reason;  // within every bound: only the bits tell
  for (const Check check : {Check::Parity, Check::Bitwise}) {
    const CaseRecord r = judged(drifts, check, 2);
    EXPECT_EQ(r.status, "fail");
    EXPECT_EQ(r.view, "determinism");
    EXPECT_NE(r.reason.find("launch 2: 1 of 35 elements differ, the first at byte 0 (n=0,d=0)"),
              std::string::npos)
        << r.reason;
  }
}

TEST(Determinism, WithoutAClaimItIsReportedOnly) {
  Contract contract = test::scaled_contract();
  contract.deterministic = false;
  const CaseRecord r = judged(drifts, Check::Parity, 2, contract);
  EXPECT_EQ(r.status, "pass") << r.reason;
  EXPECT_NE(r.tensors.at(0).views.back().detail.find("does not claim"), std::string::npos);
  // It is repeated unasked, and how far its launches differ widens the floor.
  const TensorRecord unasked = judged(drifts, Check::Parity, 1, contract).tensors.at(0);
  EXPECT_GT(unasked.repeat_spread, 0);
  const TensorRecord claimed = judged(drifts, Check::Parity, 1).tensors.at(0);
  EXPECT_EQ(claimed.repeat_spread, 0);
  EXPECT_GE(unasked.floor, claimed.floor);
  contract.invariant = {};
  EXPECT_EQ(judged(drifts, Check::Bitwise, 2, contract).status, "unsupported");
}

TEST(Determinism, ThreadCountsAreTried) {
  EXPECT_EQ(judged(counts_threads, Check::Parity, 2).status, "pass");
  const CaseRecord r = judged(counts_threads, Check::Bitwise, 2);
  EXPECT_EQ(r.view, "determinism") << r.reason;
  EXPECT_NE(r.reason.find("3 threads"), std::string::npos) << r.reason;
}

TEST(Determinism, InvariantsOfTheOpAreTriedWhereClaimed) {
  const CaseRecord r = judged(sees_the_batch, Check::Bitwise, 2);
  EXPECT_EQ(r.view, "determinism") << r.reason;
  EXPECT_NE(r.reason.find("batch: the first half alone differs"), std::string::npos) << r.reason;
  Contract contract = test::scaled_contract();
  contract.invariant = {"threads"};
  EXPECT_EQ(judged(sees_the_batch, Check::Bitwise, 2, contract).status, "pass");
}

TEST(Determinism, DifferencesNameTensorCountAndPlace) {
  Tensors a, b;
  const TensorSpec spec{.name = "o", .dtype = Dtype::E2M1, .dims = {{"N", 6}}};
  a.add(make_tensor(spec)), b.add(make_tensor(spec));
  EXPECT_TRUE(bit_differences(a, b).empty());
  store_code(Dtype::E2M1, b.list()[0].bytes.data(), 3, 5);
  ASSERT_EQ(bit_differences(a, b).size(), 1u);
  EXPECT_EQ(bit_differences(a, b)[0].differing, 1);
  EXPECT_EQ(bit_differences(a, {}).at(0).detail, "missing");
  EXPECT_EQ(bit_differences({}, b).at(0).detail, "missing on the other side");
}

}  // namespace
}  // namespace parity
