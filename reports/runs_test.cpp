#include "reports/runs.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "harness/failure.hpp"

namespace parity::reports {
namespace {

CaseRecord record(const std::string& id, const std::string& status, double used,
                  double rel_l2 = 1e-7) {
  TensorRecord tensor{.name = "y", .rel_l2 = rel_l2, .bound_used = used, .floor = 1e-7};
  tensor.views = {{.view = "bound", .value = used, .limit = 1, .ok = used <= 1}};
  tensor.status = used <= 1 ? "pass" : "fail";
  return {.id = id,
          .op = "o",
          .kernel = "o.k",
          .dtype = "f32",
          .direction = "forward",
          .check = "parity",
          .status = status,
          .tensors = {tensor}};
}

RunFolder run(std::vector<CaseRecord> cases, const std::string& started = "") {
  RunFolder folder{.cases = std::move(cases), .exit = 0};
  folder.run.commit = "abc";
  folder.run.started = started;
  return folder;
}

TEST(Runs, PartsAreOneRunWithTheWorstOfWhatIsTwiceThere) {
  const RunFolder all = merged(
      {run({record("a", "pass", 0.1)}), run({record("b", "pass", 0.1), record("a", "fail", 2)})});
  ASSERT_EQ(all.cases.size(), 2u);
  EXPECT_EQ(all.cases[0].status, "fail");
  EXPECT_EQ(all.exit, 1);
  RunFolder other = run({});
  other.run.commit = "def";
  EXPECT_THROW(merged({run({}), other}), UsageError);
}

TEST(Runs, WhatMovedIsInNoiseFloors) {
  const RunFolder before = run({record("a", "pass", 0.1), record("b", "pass", 0.1, 1e-7),
                                record("c", "pass", 0.1), record("e", "pass", 0.1)});
  const RunFolder after = run({record("a", "fail", 2), record("b", "pass", 0.4, 4e-7),
                               record("d", "pass", 0.1), record("e", "pass", 0.1, 1.01e-7)});
  const RunDiff diff = compare_runs(before, after);
  ASSERT_EQ(diff.moves.size(), 4u);
  EXPECT_EQ(diff.moves[0].text.substr(0, 12), "pass -> fail");
  EXPECT_EQ(diff.moves[1].id, "c");
  EXPECT_EQ(diff.moves[1].kind, Move::Kind::Missing);
  EXPECT_EQ(diff.moves[2].kind, Move::Kind::New);
  EXPECT_NEAR(diff.moves[3].factor, 4, 1e-12);
  EXPECT_NEAR(diff.moves[3].noise_units, 3, 1e-12);
  EXPECT_EQ(diff.exit(), 1);
  EXPECT_EQ(compare_runs(before, before).exit(), 0);
  EXPECT_TRUE(compare_runs(before, before).moves.empty());
  EXPECT_EQ(compare_runs(before, run({record("z", "pass", 0.1)})).exit(), 4);
}

TEST(Runs, AnErrorThatBecomesNaNIsAStep) {
  const RunDiff diff =
      compare_runs(run({record("a", "pass", 0.1)}), run({record("a", "pass", 0.1, std::nan(""))}));
  ASSERT_EQ(diff.moves.size(), 1u);
  EXPECT_EQ(diff.moves[0].kind, Move::Kind::Step);
}

TEST(Runs, AStepInsideTheBoundIsSeenInAHistory) {
  std::vector<RunFolder> runs;
  for (const double error : {1e-7, 1.1e-7, 0.9e-7, 3.1e-7})
    runs.push_back(run({record("a", "pass", 0.4, error), record("b", "pass", 0.4, 1e-7)}));
  const std::vector<Series> all = history(runs);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].step);
  EXPECT_EQ(all[0].id, "a");
  EXPECT_NEAR(all[0].factor, 3.1, 1e-9);
  EXPECT_FALSE(all[1].step);
  const std::string page = history_page(runs, all);
  EXPECT_NE(page.find("1 step of 2 series"), std::string::npos) << page;
}

TEST(Runs, OtherBoundsAreJudgedWithoutARun) {
  RunFolder folder = run({record("o/x@k", "pass", 0.4), record("o/y@k", "fail", 1.5)});
  const Rejudged result = rejudge(folder, parse_widenings("# why\no/*\t*\t0.25\n", "f"));
  EXPECT_EQ(result.asked, 2);
  EXPECT_EQ(result.changed, 1);
  EXPECT_EQ(folder.cases[0].status, "fail");
  EXPECT_EQ(folder.exit, 1);
  rejudge(folder, parse_widenings("o/* y 100", "f"));
  EXPECT_EQ(folder.cases[1].status, "pass");
  for (const char* text : {"o/* y", "o/* y 0", "o/* y -1", "o/* y nan", "o/* y 1x", "a b 1 2"})
    EXPECT_THROW(parse_widenings(text, "f"), UsageError) << text;
}

TEST(Runs, EqualityHasNoBoundToJudgeBy) {
  RunFolder folder = run({record("o/x", "pass", 0)});
  folder.cases[0].tensors[0].views = {{.view = "exact", .value = 0, .limit = 0, .ok = true}};
  EXPECT_EQ(rejudge(folder, {{"*", "*", 0.5}}).cannot.size(), 1u);
}

TEST(Runs, TighterBoundsAreProposedAfterTwentyRecords) {
  std::vector<CaseRecord> cases(20, record("a", "pass", 0.1));
  EXPECT_EQ(propose({run({cases.begin(), cases.end() - 1})}).size(), 0u);
  const std::vector<Proposal> found = propose({run(cases)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_DOUBLE_EQ(found[0].widening.factor, 0.2);
  EXPECT_EQ(found[0].widening.id, "o/*/f32/*@o.k*");
  cases.push_back(record("a", "pass", 0.3));  // one that needs more
  EXPECT_EQ(propose({run(cases)}).size(), 0u);
}

}  // namespace
}  // namespace parity::reports
