#include "references/blocks/scatter.hpp"

#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "harness/walk.hpp"
#include "references/vision_scatter/problem.hpp"

namespace parity::net {
namespace {

using Of = Slot::Of;

TokenRows tokens(std::vector<std::int64_t> ids, std::int64_t rows) {
  const auto length = static_cast<std::int64_t>(ids.size()) / rows;
  return {.rows = rows, .length = length, .ids = std::move(ids), .image = 7};
}

std::vector<std::int64_t> features_at(const ScatterPlan& plan) {  // -1 text, -2 nothing
  std::vector<std::int64_t> at;
  for (const auto& [of, index] : plan.slots)
    at.push_back(of == Of::Feature ? index : of == Of::Text ? -1 : -2);
  return at;
}

TEST(ScatterRuns, TakesTheirImagesInOrder) {
  const ScatterPlan plan = scatter_runs(tokens({1, 7, 7, 2, 7, 7, 7, 3}, 2), {2, 3});
  EXPECT_EQ(plan.refused, "");
  EXPECT_EQ(features_at(plan), (std::vector<std::int64_t>{-1, 0, 1, -1, 2, 3, 4, -1}));
  ASSERT_EQ(plan.runs.size(), 2u);
  EXPECT_EQ(plan.runs[1].sample, 1);
  EXPECT_EQ(plan.runs[1].start, 0);
  EXPECT_EQ(plan.runs[1].count, 3);
}

TEST(ScatterRuns, EndWithTheirRow) {
  EXPECT_EQ(scatter_runs(tokens({1, 7, 7, 1}, 2), {1, 1}).runs.size(), 2u);
}

TEST(ScatterRuns, RefuseWhatDoesNotFit) {
  const TokenRows row = tokens({1, 7, 7, 2, 7, 3}, 1);
  EXPECT_NE(scatter_runs(row, {2}).refused, "");                      // an image too few
  EXPECT_NE(scatter_runs(row, {2, 1, 1}).refused, "");                // one that stands in no row
  EXPECT_NE(scatter_runs(row, {1, 2}).refused, "");                   // another number of features
  EXPECT_NE(scatter_runs(tokens({7, 7, 7}, 1), {2, 1}).refused, "");  // adjacent: a single run
  EXPECT_NE(scatter_runs(tokens({1, 2}, 1), {1}).refused, "");        // text alone
  EXPECT_EQ(scatter_runs(tokens({1, 2}, 1), {}).refused, "");
}

MergeRows masked(const TokenRows& t, bool released) {
  MergeRows merge{.released_right_padding = released};
  for (const std::int64_t id : t.ids) {
    merge.mask.push_back(id != 0);
    merge.labels.push_back(id == 0 || id == 7 ? kIgnoredLabel : id);
  }
  return merge;
}

TEST(ScatterMerged, LeftPaddingIsTheSameByBothRules) {
  const TokenRows t = tokens({1, 7, 2, 7, 3, 0, 4, 5, 7, 6}, 2);
  for (const bool released : {false, true}) {
    const ScatterPlan plan = scatter_merged(t, {2, 1, 4}, masked(t, released));
    EXPECT_EQ(plan.length, 8);
    EXPECT_EQ(features_at(plan), (std::vector<std::int64_t>{-2, -2, -1, 0, 1, -1, 2, -1,  //
                                                            -2, -1, -1, 3, 4, 5, 6, -1}));
    EXPECT_EQ(plan.positions,
              (std::vector<std::int64_t>{1, 1, 0, 1, 2, 3, 4, 5, 1, 0, 1, 2, 3, 4, 5, 6}));
  }
}

TEST(ScatterMerged, RightPaddingIsNot) {
  const TokenRows t = tokens({1, 7, 2, 3, 4, 7, 5, 6, 0, 0}, 2);
  const ScatterPlan right = scatter_merged(t, {3, 2}, masked(t, false));
  const ScatterPlan released = scatter_merged(t, {3, 2}, masked(t, true));
  const auto second = [](const ScatterPlan& plan) {
    const std::vector<std::int64_t> all = features_at(plan);
    return std::vector<std::int64_t>(all.begin() + plan.length, all.end());
  };
  EXPECT_EQ(second(right), (std::vector<std::int64_t>{3, 4, -1, -1, -2, -2, -2}));
  EXPECT_EQ(second(released), (std::vector<std::int64_t>{-2, 3, -1, -1, -2, -2, 4}));
}

TEST(ScatterMerged, RefusesAnotherNumberOfImages) {
  const TokenRows t = tokens({1, 7, 2, 0}, 1);
  EXPECT_NE(scatter_merged(t, {}, masked(t, false)).refused, "");
  EXPECT_NE(scatter_merged(t, {1, 1}, masked(t, false)).refused, "");
}

TEST(ScatterOp, RefusesItsInputsNotItsCase) {
  Case c{.op = "vision_scatter", .sizes = Sizes::parse("B1,T4,D2,V9"), .dtype = Dtype::F64};
  c.options = {{"counts", "3"}, {"layout", "t1i2t1"}};
  const OpDef& op = registry().op_or_throw("vision_scatter");
  EXPECT_EQ(op.refuses(c), "");
  Tensors inputs;
  for (const TensorSpec& spec : op.inputs(c)) {
    inputs.add(make_tensor(spec));
    op.derive(c, inputs.list().back());
  }
  EXPECT_EQ(op.reference(c, inputs, true).refused,
            "image 0 has 3 features for a run of 2 placeholders");
  c.options.set("layout", "t1i2");
  EXPECT_NE(op.refuses(c), "");  // three tokens
}

TEST(ScatterOp, LayoutsAreReadAndPrinted) {
  EXPECT_EQ(vision::parse_layout("t2i1+p1t2"), (std::vector<std::string>{"tti", "ptt"}));
  EXPECT_EQ(vision::print_layout({"tti", "ptt"}), "t2i1+p1t2");
  for (const char* wrong : {"x1", "t", "t0", "1t", "t-1", "t1 "})
    EXPECT_THROW(vision::parse_layout(wrong), UsageError) << wrong;
}

}  // namespace
}  // namespace parity::net
