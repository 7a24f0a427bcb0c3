#include "harness/drift/synthetic.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "harness/drift/judge.hpp"

namespace parity::drift {
namespace {

std::int64_t failures(const Noise& noise, const Planted& planted, std::uint64_t trials,
                      double alpha) {
  std::int64_t failed = 0;
  for (std::uint64_t i = 0; i < trials; ++i) {
    const Draw d =
        draw({.references = 19, .steps = 48}, noise, planted, Rng{.seed = 9, .stream = 2}.split(i));
    failed += judge(d.columns, alpha).verdict == Verdict::Fail;
  }
  return failed;
}

// Rare by alpha, not by luck: 100 candidates at 1/20 each, of every kind of noise.
TEST(Synthetic, CleanCandidatesFailAsOftenAsAlphaSays) {
  for (const Noise& noise : noises()) {
    const Share share{failures(noise, {}, 100, 0.05), 100};
    EXPECT_LE(share.low(), 0.05) << noise.name << ": " << share.hits;
    EXPECT_GE(share.high(), 0.05) << noise.name << ": " << share.hits;
  }
}

TEST(Synthetic, WhatIsPlantedIsFoundFarMoreOftenThanAlpha) {
  for (const Planted& planted : plants())
    EXPECT_GE(failures(noises().front(), planted, 12, 0.05), 4) << planted.name;
}

TEST(Synthetic, RulesSayWhatTheyClaim) {
  const std::vector<double> reference(100, 2.0);
  std::vector<double> late = reference, early = reference;
  late.back() = 2.02;
  early[3] = 2.2;
  for (const Rule& rule : rules()) EXPECT_LE(rule.score(reference, reference), rule.limit);
  EXPECT_GT(rules()[0].score(late, reference), rules()[0].limit);
  EXPECT_GT(rules()[1].score(late, reference), rules()[1].limit);
  EXPECT_LE(rules()[2].score(late, reference), rules()[2].limit);
  EXPECT_GT(rules()[2].score(early, reference), rules()[2].limit);
  EXPECT_GT(rules()[3].score(early, reference), rules()[3].limit);
}

TEST(Synthetic, IntervalsAndAreas) {
  const Share ten{10, 1000};
  EXPECT_NEAR(ten.low(), 0.00544, 1e-4);  // Wilson, by its formula
  EXPECT_NEAR(ten.high(), 0.01831, 1e-4);
  EXPECT_EQ(roc_area(std::vector<double>{1, 2}, std::vector<double>{3, 4}), 1);
  EXPECT_EQ(roc_area(std::vector<double>{1, 2}, std::vector<double>{1, 2}), 0.5);
}

}  // namespace
}  // namespace parity::drift
