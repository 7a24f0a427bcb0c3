#include "harness/drift/judge.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "harness/numeric/philox.hpp"

namespace parity::drift {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// runs x steps of a decaying curve with noise that remembers a part of itself.
using Runs = std::vector<std::vector<double>>;

Runs ensemble(std::size_t runs, std::size_t steps, std::uint64_t seed) {
  Runs all;
  for (std::size_t r = 0; r < runs; ++r) {
    const Rng rng{.seed = seed, .stream = r};
    std::vector<double> run;
    double noise = 0;
    for (std::size_t t = 0; t < steps; ++t) {
      noise = 0.9 * noise + 1e-3 * rng.normal(t);
      run.push_back((2 + 3 * std::exp(-static_cast<double>(t) / 50)) * std::exp(noise));
    }
    all.push_back(run);
  }
  return all;
}

// `candidate` first, the others in their order.
Column column_of(const Runs& runs, std::size_t candidate, ColumnOptions options) {
  options.runs = runs.size();
  options.steps = static_cast<std::int64_t>(runs.front().size());
  Column column(options);
  for (std::size_t t = 0; t < runs.front().size(); ++t) {
    std::vector<double> values = {runs[candidate][t]};
    for (std::size_t r = 0; r < runs.size(); ++r)
      if (r != candidate) values.push_back(runs[r][t]);
    column.add(static_cast<std::int64_t>(t), values, values[0] * 1e-9);
  }
  return column;
}

Judgement judged(const Runs& loss, double alpha = 0.05) {
  const std::vector<Column> columns = {
      column_of(loss, 0, {.name = "loss", .detectable = true, .keep_all = true})};
  return judge(columns, alpha);
}

// The property behind the false-alarm rate: whichever member is taken for the candidate, all are
// measured alike, so each place in the ranking is taken exactly once.
TEST(DriftJudge, EveryMemberOfAnEnsembleHasItsOwnRank) {
  const Runs loss = ensemble(12, 120, 1), norm = ensemble(12, 120, 2);
  std::set<std::int64_t> ranks;
  for (std::size_t c = 0; c < loss.size(); ++c) {
    const std::vector<Column> columns = {column_of(loss, c, {.name = "loss"}),
                                         column_of(norm, c, {.name = "grad_norm"})};
    ranks.insert(std::llround(12 * judge(columns, 0.1).p));
  }
  EXPECT_EQ(ranks.size(), 12U);
}

TEST(DriftJudge, AShiftFailsAndNamesItsColumn) {
  Runs loss = ensemble(20, 200, 3);
  for (double& x : loss[0]) x *= 1.05;
  const Judgement j = judged(loss);
  EXPECT_EQ(j.verdict, Verdict::Fail);
  EXPECT_DOUBLE_EQ(j.p, 1.0 / 20);
  EXPECT_EQ(j.columns[j.telling].name, "loss");
  EXPECT_TRUE(j.columns[0].left_band.has_value());
}

TEST(DriftJudge, ASlowTrendFailsThoughNoStepStandsOut) {
  Runs loss = ensemble(40, 400, 4);
  for (std::size_t t = 0; t < loss[0].size(); ++t)
    loss[0][t] *= 1 + 0.006 * static_cast<double>(t) / 400;
  EXPECT_EQ(judged(loss).verdict, Verdict::Fail);
}

TEST(DriftJudge, NoiseWithoutAShiftFails) {
  Runs loss = ensemble(40, 400, 5);
  const Rng rng{.seed = 99};
  for (std::size_t t = 0; t < loss[0].size(); ++t) loss[0][t] *= std::exp(6e-3 * rng.normal(t));
  EXPECT_EQ(judged(loss).verdict, Verdict::Fail);
}

TEST(DriftJudge, TooFewReferencesAreUnprovenAndSayHowManyItTakes) {
  Runs loss = ensemble(10, 100, 6);
  for (double& x : loss[0]) x *= 2;
  const Judgement j = judged(loss, 0.05);
  EXPECT_EQ(j.verdict, Verdict::Unproven);
  EXPECT_NE(j.reason.find("needs 19"), std::string::npos) << j.reason;
  EXPECT_EQ(judged(loss, 0.1).verdict, Verdict::Fail);  // 9 references are enough for that
}

TEST(DriftJudge, ANumberThatIsNoneFailsAtAnyK) {
  Runs loss = ensemble(4, 50, 7);
  loss[0][20] = kNan;
  const Judgement j = judged(loss, 0.05);
  EXPECT_EQ(j.verdict, Verdict::Fail);
  EXPECT_NE(j.reason.find("step 20"), std::string::npos) << j.reason;
}

// A reference that breaks down is as extreme as can be: it never makes a candidate look worse.
TEST(DriftJudge, ABrokenReferenceCountsAsExtreme) {
  Runs loss = ensemble(20, 100, 8);
  for (double& x : loss[0]) x *= 1.5;
  loss[5][50] = kNan;
  const Judgement j = judged(loss);
  EXPECT_EQ(j.as_extreme, 1);
  EXPECT_EQ(j.verdict, Verdict::Pass);
}

TEST(DriftJudge, EqualBitsPassAtAnyK) {
  Runs loss = ensemble(3, 50, 9);
  loss[0] = loss[2];
  const Judgement j = judged(loss);
  EXPECT_EQ(j.verdict, Verdict::Pass);
  EXPECT_TRUE(j.identical);
  EXPECT_EQ(j.equal_longest, 1U);
}

TEST(DriftJudge, NothingComparedIsUnproven) {
  const std::vector<Column> none = {Column({.name = "loss", .runs = 5, .steps = 0})};
  EXPECT_EQ(judge(none, 0.05).verdict, Verdict::Unproven);
  EXPECT_EQ(judge({}, 0.05).verdict, Verdict::Unproven);
}

TEST(DriftJudge, SmallestDetectableShiftIsDetectedAndATenthIsNot) {
  const Runs clean = ensemble(40, 300, 10);
  const std::optional<double> shift = judged(clean).columns[0].detectable;
  ASSERT_TRUE(shift.has_value());
  int found = 0, found_tenth = 0;
  for (std::size_t member = 1; member <= 10; ++member)
    for (const double factor : {1.5 * *shift, 0.1 * *shift}) {
      Runs loss = clean;
      for (std::size_t t = 150; t < 300; ++t) loss[member][t] *= 1 + factor;
      std::swap(loss[0], loss[member]);
      (factor > *shift ? found : found_tenth) += judged(loss).verdict == Verdict::Fail;
    }
  EXPECT_GE(found, 8);
  EXPECT_LE(found_tenth, 3);
}

TEST(DriftJudge, TheParameterThatLeftFirstIsNamed) {
  const std::size_t runs = 24;
  std::vector<Runs> norms;
  for (std::uint64_t p = 0; p < 3; ++p) norms.push_back(ensemble(runs, 100, 20 + p));
  for (std::size_t t = 10; t < 100; ++t) norms[1][0][t] *= 1.2;
  for (std::size_t t = 40; t < 100; ++t) norms[2][0][t] *= 3;
  std::vector<Column> columns;
  for (std::size_t p = 0; p < 3; ++p)
    columns.push_back(column_of(norms[p], 0, {.name = "p" + std::to_string(p), .parameter = true}));
  const Judgement j = judge(columns, 0.05);
  ASSERT_TRUE(j.first_parameter.has_value());
  EXPECT_EQ(j.columns[*j.first_parameter].name, "p1");
  EXPECT_EQ(j.columns[1].left_band, 10);
  EXPECT_EQ(j.columns[2].left_band, 40);
  EXPECT_FALSE(j.columns[0].left_band.has_value());
}

}  // namespace
}  // namespace parity::drift
