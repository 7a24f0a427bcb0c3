#include <gtest/gtest.h>
#include <initializer_list>

#include "harness/suite.hpp"

namespace parity {
namespace {

CaseRecord record(Status status, std::string kernel = "op.k", std::string error_kind = {},
                  bool damaged = false) {
  CaseRecord r;
  r.id = "op/file:case@" + kernel;
  r.kernel = std::move(kernel);
  r.status = name(status);
  r.error_kind = std::move(error_kind);
  r.expected = damaged ? "fail" : "";
  return r;
}

int exit_after(std::initializer_list<CaseRecord> records) {
  Tally tally;
  for (const CaseRecord& r : records) tally.add(r);
  return tally.exit();
}

TEST(Tally, OneStatusEach) {
  EXPECT_EQ(exit_after({}), 4);  // nothing ran
  EXPECT_EQ(exit_after({record(Status::Pass)}), 0);
  EXPECT_EQ(exit_after({record(Status::Fail)}), 1);
  EXPECT_EQ(exit_after({record(Status::Unproven)}), 4);
  EXPECT_EQ(exit_after({record(Status::Unsupported)}), 4);  // still nothing ran
  EXPECT_EQ(exit_after({record(Status::Waived)}), 0);
  EXPECT_EQ(exit_after({record(Status::Error, "k", "crash")}), 3);
  EXPECT_EQ(exit_after({record(Status::Error, "k", "timeout")}), 3);
  EXPECT_EQ(exit_after({record(Status::Error, "k", "memory")}), 3);
  EXPECT_EQ(exit_after({record(Status::Error, "k", "device")}), 3);
  EXPECT_EQ(exit_after({record(Status::Error, "k", "harness")}), 2);
}

TEST(Tally, TheWorstOfSeveralCounts) {
  const auto pass = record(Status::Pass), fail = record(Status::Fail),
             unproven = record(Status::Unproven), unsupported = record(Status::Unsupported),
             crash = record(Status::Error, "k", "crash"),
             broken = record(Status::Error, "k", "harness");
  EXPECT_EQ(exit_after({pass, unsupported}), 0);
  EXPECT_EQ(exit_after({pass, unproven}), 4);
  EXPECT_EQ(exit_after({pass, unproven, crash}), 3);
  EXPECT_EQ(exit_after({crash, fail, unproven}), 1);  // a failure is not hidden by a crash
  EXPECT_EQ(exit_after({crash, fail, broken}), 2);
  EXPECT_EQ(exit_after({unsupported, crash}), 3);
}

TEST(Tally, DamagedCandidatesMustFailSomewhere) {
  const auto sound = record(Status::Pass, "recording.clean");
  const auto seen = record(Status::Fail, "recording.a", "", true),
             missed = record(Status::Pass, "recording.a", "", true);
  const auto never = record(Status::Pass, "recording.b", "", true);
  EXPECT_EQ(exit_after({sound, missed, seen}), 0);  // failing in one case is enough
  EXPECT_EQ(exit_after({seen}), 0);
  EXPECT_EQ(exit_after({sound, seen, never}), 4);
  EXPECT_EQ(exit_after({record(Status::Fail, "recording.clean"), seen}), 1);
  EXPECT_EQ(exit_after({record(Status::Error, "recording.a", "crash", true)}), 3);

  Tally tally;
  for (const CaseRecord& r : {missed, seen, never}) tally.add(r);
  EXPECT_EQ(tally.counts().expected_fail, 1);
  EXPECT_EQ(tally.counts().pass, 2);
  EXPECT_EQ(tally.counts().fail, 0);
  EXPECT_EQ(tally.undetected(), std::vector<std::string>{"file@recording.b"});
}

TEST(Tally, ExitsInTheOrderOfTheirWeight) {
  constexpr int kOrder[] = {2, 5, 1, 3, 4, 0};
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) EXPECT_EQ(worse_exit(kOrder[i], kOrder[j]), kOrder[std::min(i, j)]);
}

}  // namespace
}  // namespace parity
