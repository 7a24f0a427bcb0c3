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
                  .taken = {{"f32", 7}},
                  .exact = {{"f32", 2}},
                  .faults = {{.id = "x"}}},
                 {.name = "tested.k",
                  .op = "tested",
                  .dtypes = {"f32"},
                  .directions = {"forward"},
                  .taken = {{"f32", 3}},
                  .exact = {{"f32", 1}},
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
  const std::vector<CoverageRow> rows = coverage(sample());
  EXPECT_EQ(rows.size(), 7U);
  const CoverageRow& whole = row_of(rows, "tested", "forward", "f32");
  EXPECT_EQ(whole.cases, 3);
  EXPECT_EQ(whole.exact_probes, 1);
  EXPECT_EQ(whole.mutants, 2);  // its own and the base's that can be shown
  EXPECT_TRUE(whole.holes.empty());
}

TEST(Coverage, NamesEveryHole) {
  const std::vector<CoverageRow> rows = coverage(sample());
  using Holes = std::vector<std::string>;
  EXPECT_EQ(row_of(rows, "op", "forward", "f32").holes, Holes{});
  EXPECT_EQ(row_of(rows, "op", "backward", "f32").holes, Holes{"the kernel has no backward"});
  EXPECT_EQ(row_of(rows, "op", "forward", "f64").holes, Holes{"no case: even"});
  EXPECT_EQ(
      row_of(rows, "op", "forward", "bf16").holes,
      (Holes{"no kernel takes this dtype", "no mutant: nothing shows that its gate can fail"}));
  EXPECT_NE(coverage_text(rows).find("7 combinations, 5 with a hole"), std::string::npos)
      << coverage_text(rows);
  EXPECT_NE(coverage_json(rows).find(R"("holes":["no case: even"])"), std::string::npos);
}

}  // namespace
}  // namespace parity::cli
