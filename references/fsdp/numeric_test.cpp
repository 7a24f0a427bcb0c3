// Norms, optimisers, divisors and digests, by numbers worked out by hand.
#include <cmath>
#include <gtest/gtest.h>

#include "harness/failure.hpp"
#include "references/fsdp/norm.hpp"
#include "references/fsdp/optimizer.hpp"
#include "references/fsdp/reduction.hpp"
#include "references/fsdp/sha256.hpp"

namespace parity::fsdp {
namespace {

TEST(ShardNorm, OfEachKind) {
  const std::vector<float> x = {3, -4, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(local_norm(x, 2, Dtype::F32), 5.f);
  EXPECT_EQ(local_norm(x, 1, Dtype::F32), 7.f);
  EXPECT_EQ(local_norm(x, INFINITY, Dtype::F32), 4.f);
  EXPECT_EQ(local_norm({}, 2, Dtype::F32), 0.f);
  const std::vector<float> nan = {1, std::nanf(""), 3};
  EXPECT_TRUE(std::isnan(local_norm(nan, INFINITY, Dtype::F32)));
}

TEST(ShardNorm, TheClipCoefficientIsRoundedTwiceAndNeverAboveOne) {
  EXPECT_EQ(clip_coefficient(0.1f, 0.5, Dtype::F32), 1.f);
  const float inverse = 1.f / (3.f + 1e-6f);
  EXPECT_EQ(clip_coefficient(3.f, 0.5, Dtype::F32), inverse * 0.5f);
  EXPECT_TRUE(std::isnan(clip_coefficient(std::nanf(""), 0.5, Dtype::F32)));
}

TEST(OptimizerStep, ABf16StepDependsOnWhereAShardEnds) {
  // 33 equal elements: 32 of the vector body, one of the tail, which rounds the product too.
  const float p0 = dist::rounded(Dtype::BF16, 1.37f), g0 = dist::rounded(Dtype::BF16, 0.0123f);
  std::vector<float> p(33, p0), g(33, g0);
  OptimizerState state;
  Optimizer o = sgd();
  o.decay = 0.37;
  step(o, Dtype::BF16, p, g, state);
  for (std::size_t i = 1; i < 32; ++i) EXPECT_EQ(p[i], p[0]);
  const float d = dist::rounded(Dtype::BF16, 0.37f) * p0;
  EXPECT_EQ(state.first[0], dist::rounded(Dtype::BF16, g0 + d));
  EXPECT_EQ(state.first[32], dist::rounded(Dtype::BF16, g0 + dist::rounded(Dtype::BF16, d)));
  EXPECT_THROW(step(adamw(), Dtype::BF16, p, g, state), UsageError);
}

TEST(Divisors, AverageScaledSumAndF16) {
  Config config;
  EXPECT_TRUE(divisors(config, 3, Dtype::F32).average);
  EXPECT_EQ(divisors(config, 3, Dtype::F16).before, 2);
  EXPECT_EQ(divisors(config, 3, Dtype::F16).after, 1.5);
  EXPECT_EQ(divisors(config, 8, Dtype::F16).before, 4);
  EXPECT_EQ(divisors(config, 8, Dtype::F16).after, 2);
  config.divide_factor = 1;
  EXPECT_THROW(divisors(config, 2, Dtype::F32), UsageError);  // a scaled sum
  EXPECT_NO_THROW(divisors(config, 1, Dtype::F32));
  config.force_sum = true;
  EXPECT_EQ(divisors(config, 2, Dtype::F32).after, 1);
}

TEST(Sha256, OfKnownTexts) {
  const std::string abc = "abc";
  EXPECT_EQ(sha256(std::as_bytes(std::span(abc))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace parity::fsdp
