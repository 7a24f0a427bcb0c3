// Coverage of a catalogue made up here: every combination once, every hole with its reason.
#include "harness/cli/coverage.hpp"

#include <gtest/gtest.h>

namespace parity::cli {
namespace {

Catalogue sample() {
  Catalogue all;
  all.ops = {{.name = "op", .directions = {"forward", "backward"}, .dtypes = {"f32", "bf16"}},
             {.name = "tested",
              .directions = {"forward"},
              .dtypes = {"f32"},
              .faults = {{.id = "a"}, {.id = "b", .unsupported = "needs ranks"}}}};
  all.kernels = {{.name = "op.k",
                  .op = "op",
                  .dtypes = {"f32", "f64"},
                  .directions = {"forward"},
                  .refuses = {{"odd", 2}, {"even", 5}},
                  .taken = {{"forward f32", 7}},
                  .exact = {{"forward f32", 2}},
                  .faults = {{.id = "x"}}},
                 {.name = "tested.k",
                  .op = "tested",
                  .dtypes = {"f32"},
                  .directions = {"forward"},
                  .taken = {{"forward f32", 3}},
                  .exact = {{"forward f32", 1}},
                  .faults = {{.id = "y"}}}};
  return all;
}

const CoverageRow& row_of(const std::vector<CoverageRow>& rows, std::string_view op,
                          std::string_view direction, std::string_view dtype) {
  for (const CoverageRow& row : rows)
    if (row.op == op && row.direction == direction && row.dtype == dtype) return row;
  ADD_FAILURE() << op << direction << dtype;
  return rows.front();
}

TEST(Coverage, CountsWhatJudges) {
  const std::vector<CoverageRow> rows = coverage(sample(), "").rows;
  EXPECT_EQ(rows.size(), 7U);
  const CoverageRow& whole = row_of(rows, "tested", "forward", "f32");
  EXPECT_EQ(whole.cases, 3);
  EXPECT_EQ(whole.exact_probes, 1);
  EXPECT_EQ(whole.mutants, 2);  // its own and the base's that can be shown
  EXPECT_TRUE(whole.holes.empty());
}

TEST(Coverage, NamesEveryHole) {
  const std::vector<CoverageRow> rows = coverage(sample(), "").rows;
  using Holes = std::vector<std::string>;
  EXPECT_EQ(row_of(rows, "op", "forward", "f32").holes, Holes{});
  EXPECT_EQ(row_of(rows, "op", "backward", "f32").holes, Holes{"the kernel has no backward"});
  EXPECT_EQ(row_of(rows, "op", "forward", "f64").holes, Holes{"no case: even"});
  EXPECT_EQ(row_of(rows, "op", "forward", "f64").mutants, 0);  // its fault never runs there
  EXPECT_EQ(
      row_of(rows, "op", "forward", "bf16").holes,
      (Holes{"no kernel takes this dtype", "no mutant: nothing shows that its gate can fail"}));
  EXPECT_NE(coverage_text(rows).find("7 combinations, 2 complete, 0 explained, 5 with a hole"),
            std::string::npos)
      << coverage_text(rows);
  EXPECT_NE(coverage_json(rows).find(R"("holes":["no case: even"])"), std::string::npos);
}

// What a reason covers is counted apart; one that covers nothing is told, and so is what is left.
TEST(Coverage, HolesAreExplainedOrFound) {
  Catalogue all = sample();
  all.explanations = {{.op = "op",
                       .direction = "backward",
                       .dtype = "f32",
                       .kernel = "op.k",
                       .hole = "the kernel has no backward",
                       .why = "it decodes"},
                      {.op = "op",
                       .direction = "*",
                       .dtype = "*",
                       .kernel = "*",
                       .hole = "no case*",
                       .why = "nobody computes in it"},
                      {.op = "tested",
                       .direction = "*",
                       .dtype = "*",
                       .kernel = "*",
                       .hole = "no exact probe",
                       .why = "it has one"}};
  const Coverage covered = coverage(all, "");
  const CoverageRow& row = row_of(covered.rows, "op", "backward", "f32");
  EXPECT_EQ(row.holes, std::vector<std::string>{});
  EXPECT_EQ(row.explained, std::vector<std::string>{"the kernel has no backward: it decodes"});
  EXPECT_NE(coverage_text(covered.rows).find("2 complete, 2 explained, 3 with a hole"),
            std::string::npos)
      << coverage_text(covered.rows);
  ASSERT_EQ(covered.idle.size(), 1U);
  EXPECT_EQ(covered.idle[0].why, "it has one");
  const std::vector<Finding> findings = findings_of(covered);
  EXPECT_EQ(findings.size(), 6U);  // a kernel without a backward at f64; two holes twice at bf16
  EXPECT_EQ(findings.front().rule, "coverage");
}

TEST(Coverage, CasesWithoutGradientsProbeNoBackward) {
  Catalogue all = sample();
  all.kernels[1].directions = {"forward", "backward"};
  all.ops[1].directions = {"forward", "backward"};
  EXPECT_EQ(row_of(coverage(all, "").rows, "tested", "backward", "f32").holes,
            std::vector<std::string>{"no case"});
}

TEST(Coverage, ABuildWithoutLibTorchSaysSo) {
  Catalogue all = sample();
  all.explanations = {{.op = "op", .hole = "nothing of the kind", .why = "w"}};
  const Coverage covered = coverage(all, "this build has no LibTorch");
  EXPECT_EQ(row_of(covered.rows, "op", "forward", "bf16").explained,
            std::vector<std::string>{"no kernel takes this dtype: this build has no LibTorch"});
  EXPECT_TRUE(covered.idle.empty());  // it may explain what is not here
}

TEST(Coverage, WhatOtherHardwareTakesIsNoHole) {
  Catalogue all = sample();
  all.kernels[0].needs = "nothing known";
  const std::vector<CoverageRow> rows = coverage(all, "").rows;
  EXPECT_EQ(row_of(rows, "op", "forward", "f64").holes, std::vector<std::string>{});
  EXPECT_EQ(
      row_of(rows, "op", "forward", "f64").explained,
      std::vector<std::string>{"not here: needs 'nothing known', which parity does not know"});
}

TEST(Coverage, WithoutGpuKernelsWhatExplainsThemIsNotIdle) {
  Catalogue all = sample();
  all.explanations = {{.op = "op", .kernel = "op.cuda_*", .hole = "none", .why = "w"}};
  EXPECT_TRUE(coverage(all, "").idle.empty());
  all.kernels[0].needs = "sm_90+";
  EXPECT_EQ(coverage(all, "").idle.size(), 1U);
}

}  // namespace
}  // namespace parity::cli
