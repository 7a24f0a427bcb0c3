#include "harness/cli/ledger.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "harness/failure.hpp"

namespace parity::cli {
namespace {

double constant = 1;
BoundKind kind = BoundKind::Proved;

std::vector<TensorSpec> outputs(const Case&) { return {{.name = "y", .role = Role::Output}}; }
void draw(const RowDraw&, std::span<double>) {}
Bound bound(const Case&, const Contract&, const TensorSpec&) {
  return {.kind = kind,
          .c_acc = constant,
          .growth = {.kind = Growth::Kind::WorstCase, .n = 4},
          .why = "derived"};
}

Registry one_op() {
  Registry all;
  all.ops.push_back({.name = "op", .outputs = outputs});
  all.kernels.push_back({.op = "op", .name = "op.plain", .contract = {.dtypes = {Dtype::F32}}});
  all.case_sets.push_back({.op = "op",
                           .what = "small",
                           .sizes = {Sizes::parse("N3")},
                           .dtypes = {Dtype::F32},
                           .fills = {{.name = "uniform", .what = "ordinary", .row = draw}}});
  all.bounds.push_back({.op = "op", .bound = bound});
  return all;
}

class Ledger : public testing::Test {
 protected:
  void TearDown() override { constant = 1, kind = BoundKind::Proved; }
  const Registry all = one_op();
  const std::vector<LedgerLine> agreed = ledger_of(all);
};

TEST_F(Ledger, HasALineForEachBoundAndReadsItself) {
  ASSERT_EQ(agreed.size(), 1U);
  EXPECT_EQ(agreed[0].id, "op/N3/f32/uniform/s0@op.plain");
  EXPECT_EQ(agreed[0].value, 0x1p-24);
  EXPECT_GT(agreed[0].companion, 4 * 0x1p-24);
  const auto read = parse_ledger(print_ledger(agreed));
  EXPECT_EQ(print_ledger(read), print_ledger(agreed));
  EXPECT_THROW(parse_ledger("a\tb\n"), UsageError);
  EXPECT_THROW(parse_ledger("a\tb\tproved\tx\t0\t0\t1\t\n"), UsageError);
}

TEST_F(Ledger, WhatDidNotChangeOrBecameTighterIsNoFinding) {
  EXPECT_TRUE(compare_ledger(all, agreed, "").loosened.empty());
  constant = 0.5;
  const LedgerReport report = compare_ledger(all, agreed, "");
  EXPECT_TRUE(report.loosened.empty());
  EXPECT_LT(report.lines.at(0).companion,
            agreed[0].companion);  // and that is what holds from now on
}

TEST_F(Ledger, ALoosenedBoundIsAFindingUntilItIsExplained) {
  constant = 2;
  LedgerReport report = compare_ledger(all, agreed, "");
  ASSERT_EQ(report.loosened.size(), 1U);
  EXPECT_NE(report.loosened[0].what.find("2 times as wide"), std::string::npos);
  EXPECT_EQ(print_ledger(report.lines), print_ledger(agreed));  // nothing is agreed on in passing
  report = compare_ledger(all, agreed, "fp32 accumulation, block 64");
  EXPECT_TRUE(report.loosened.empty());
  EXPECT_NEAR(report.lines.at(0).creep, 2, 1e-12);
  EXPECT_EQ(report.lines.at(0).explained, "2x: fp32 accumulation, block 64");
  constant = 3;
  const LedgerReport more = compare_ledger(all, report.lines, "again");
  EXPECT_NEAR(more.lines.at(0).creep, 3, 1e-12);  // loosenings add up
}

TEST_F(Ledger, AWeakerKindIsALoosening) {
  kind = BoundKind::Estimated;
  EXPECT_EQ(compare_ledger(all, agreed, "").loosened.size(), 1U);
}

TEST_F(Ledger, NewBoundsAreCountedAndGoneOnesDropped) {
  const LedgerReport fresh = compare_ledger(all, {}, "");
  EXPECT_EQ(fresh.unknown, 1);
  EXPECT_EQ(fresh.lines.size(), 1U);
  std::vector<LedgerLine> old = agreed;
  old.push_back({.id = "gone/N3/f32/uniform/s0@gone.plain", .tensor = "y", .kind = "proved"});
  EXPECT_EQ(compare_ledger(all, old, "").lines.size(), 1U);
  EXPECT_EQ(compare_ledger(all, old, "", false).lines.size(), 2U);  // of a kernel left out here
}

}  // namespace
}  // namespace parity::cli
