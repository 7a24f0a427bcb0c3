#include <algorithm>
#include <cmath>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <set>

#include "harness/mutants.hpp"
#include "harness/testing/scaled.hpp"

namespace parity {
namespace {

MutateOptions only(const std::string& glob) {
  MutateOptions options;
  options.only = glob;
  options.suite.timeout_s = 20;
  options.clean_minimum = options.clean_minimum_per_op = 20;
  return options;
}

const MutantRecord& record(const MutationReport& report, const std::string& id) {
  const auto it = std::ranges::find(report.mutants, id, &MutantRecord::id);
  if (it == report.mutants.end()) throw std::runtime_error("no mutant " + id);
  return *it;
}

TEST(Mutants, AFaultKnownByTwoNamesKeepsTheFirstCatalogue) {
  std::set<std::string> ids;
  for (const MutantRecord& m : all_mutants(registry()))
    EXPECT_TRUE(ids.insert(m.id).second) << m.id;
  EXPECT_TRUE(ids.contains("test_scaled.plain!A-TST1"));
  EXPECT_FALSE(ids.contains("test_scaled.plain!F-901"));
  for (const Mutant& m : mutants_of(registry()))
    if (m.record.id == "test_scaled.plain!A-TST1") {
      EXPECT_EQ(m.record.alias, "F-901");
      EXPECT_EQ(m.fault, "F-901");  // what the kernel itself calls it
    }
}

TEST(Mutate, SoundGateKillsEveryMutantAndAlarmsOnNothingSound) {
  MutateOptions options = only("test_scaled");
  options.clean_minimum_per_op = 100;
  const MutationReport report = mutate(options);
  EXPECT_EQ(report.exit, 0);
  EXPECT_EQ(report.summary.killed, 4);
  EXPECT_EQ(report.summary.survived, 0);
  EXPECT_EQ(report.summary.unsupported, 1);
  EXPECT_EQ(report.summary.false_alarms, 0) << report.false_alarm_ids.front();
  EXPECT_GE(report.summary.clean, 100);
  for (const char* id : {"test_scaled.plain!A-TST1", "test_scaled.plain!P-last",
                         "test_scaled.base!P-half", "test_scaled.base!P-sign"}) {
    const MutantRecord& m = record(report, id);
    EXPECT_EQ(m.status, "killed") << id;
    EXPECT_EQ(m.view, "bound") << id;
    EXPECT_GT(m.margin, 1) << id;
    EXPECT_TRUE(m.case_id.starts_with("test_scaled/")) << m.case_id;
  }
  const MutantRecord& race = record(report, "test_scaled.plain!P-race");
  EXPECT_EQ(race.status, "unsupported");
  EXPECT_EQ(race.reason, "one thread of a CPU shows no race");
}

TEST(Mutate, ASurvivorIsNamedAndRed) {
  const MutationReport report = mutate(only("test_loose*"));
  EXPECT_EQ(report.exit, 4);
  EXPECT_EQ(report.summary.survived, 1);
  const MutantRecord& m = record(report, "test_loose.plain!P-nothing");
  EXPECT_EQ(m.status, "survived");
  EXPECT_EQ(m.reason, "passed all 8 tries");
}

TEST(Mutate, OneMutantByItsFault) {
  const MutationReport report = mutate(only("F-901"));
  ASSERT_EQ(report.mutants.size(), 1u);
  EXPECT_EQ(report.mutants[0].id, "test_scaled.plain!A-TST1");
  EXPECT_EQ(report.exit, 0);
}

TEST(Mutate, NothingSelectedIsNoProof) {
  const MutationReport report = mutate(only("no such thing"));
  EXPECT_TRUE(report.mutants.empty());
  EXPECT_EQ(report.exit, 4);
}

TEST(Mutate, ThePlanHoldsAsManyCleanVariantsAsAreAskedFor) {
  MutateOptions options = only("test_scaled");
  const std::vector<Mutant> mutants = mutants_of(registry());
  const Case c = test::scaled_case("test_scaled", "N5,D7");
  options.clean_minimum_per_op = options.clean_minimum = 250;
  const MutationPlan plan =
      MutationPlanner(registry(), {c}, options).plan(mutants, std::span(&c, 1));
  ASSERT_EQ(plan.slots.size(), 1u);
  const auto clean =
      std::ranges::count_if(plan.slots[0], [](const MutationPlan::Slot& s) { return s.clean; });
  EXPECT_GE(clean, 250);
  std::set<std::string> variants;
  for (std::size_t i = 0; i < plan.slots[0].size(); ++i) {
    const Candidate& candidate = plan.subjects[0].candidates[i];
    if (plan.slots[0][i].clean) {
      EXPECT_TRUE(variants.insert(candidate.name + candidate.options.str()).second);
    }
  }
}

TEST(Mutate, WhereTheCleanTwinFailsNothingIsKilled) {
  const MutationReport report = mutate(only("test_broken"));
  EXPECT_EQ(report.exit, 4);
  EXPECT_EQ(record(report, "test_broken.plain!P-last").status, "survived");
  EXPECT_EQ(record(report, "test_broken.plain!P-last").reason,
            "its clean twin passes in no case of this lane");
  EXPECT_EQ(report.summary.false_alarms, 8);  // of a kernel that is believed sound, one a case
  EXPECT_EQ(report.false_alarm_ids.size(), 8u);
}

TEST(Mutate, TheCleanTwinIsJudgedBeforeItsMutant) {
  Mutant mutant{.record = {.id = "test_scaled.base!P-half", .op = "test_scaled", .fault = "P-half"},
                .fault = "P-half",
                .op = registry().op("test_scaled")};
  const Case c = test::scaled_case("test_scaled", "N5,D7");
  const MutationPlan plan =
      MutationPlanner(registry(), {c}, only("*")).plan({mutant}, std::span(&c, 1));
  const auto slot =
      std::ranges::find_if(plan.slots.at(0), [](const MutationPlan::Slot& s) { return !s.clean; });
  ASSERT_NE(slot, plan.slots[0].end());
  EXPECT_TRUE(plan.slots[0][slot->twin].clean);
  EXPECT_LT(slot->twin, static_cast<std::size_t>(slot - plan.slots[0].begin()));
}

// Kernels of a library that the suite's worker loads: what their mutants meet here.
MutationReport of_elsewhere(const std::string& library, std::vector<Dtype> dtypes = {}) {
  MutateOptions options = only("test_scaled.elsewhere!P-far");
  options.suite.torch_library = library;
  options.elsewhere = {{.op = "test_scaled",
                        .name = "test_scaled.elsewhere",
                        .environment = "torch",
                        .contract = {.dtypes = std::move(dtypes)},
                        .backward = [](const Launch&) {},
                        .faults = {{.id = "P-far", .what = "a fault of a kernel elsewhere"}}}};
  return mutate(options);
}

TEST(Mutate, WhereTheLibraryIsMissingItsMutantsSaySo) {
  const MutationReport report = of_elsewhere("/no/such/library.so");
  const MutantRecord& m = record(report, "test_scaled.elsewhere!P-far");
  EXPECT_EQ(m.status, "unsupported");
  EXPECT_NE(m.reason.find("/no/such/library.so"), std::string::npos) << m.reason;
  EXPECT_EQ(report.exit, 4);  // nothing is proven by it
}

TEST(Mutate, WhereTheLibraryLacksTheKernelItsMutantsSaySo) {
  Dl_info hub = {};
  ASSERT_NE(::dladdr(reinterpret_cast<const void*>(&registry), &hub), 0);
  const MutationReport report = of_elsewhere(hub.dli_fname);  // any library will do
  const MutantRecord& m = record(report, "test_scaled.elsewhere!P-far");
  EXPECT_EQ(m.status, "unsupported");
  EXPECT_NE(m.reason.find("does not hold this kernel"), std::string::npos) << m.reason;
}

// A kernel whose data type no case has is a hole, not a kernel that refuses.
TEST(Mutate, AFaultThatNoCaseOfItsTypeMeetsSurvives) {
  const MutationReport report = of_elsewhere("/no/such/library.so", {Dtype::E4M3});
  const MutantRecord& m = record(report, "test_scaled.elsewhere!P-far");
  EXPECT_EQ(m.status, "survived");
  EXPECT_EQ(m.reason, kNoCase);
  EXPECT_EQ(report.exit, 4);
}

}  // namespace
}  // namespace parity
