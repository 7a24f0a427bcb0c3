#include "harness/rival_rules.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace parity {
namespace {

bool passes(std::string_view rule, const std::vector<double>& candidate,
            const std::vector<double>& truth, const std::vector<double>& base) {
  const auto found = std::ranges::find(rival_rules(), rule, &RivalRule::name);
  return found->passes({candidate, truth, base, Dtype::F32});
}

class Rules : public testing::Test {
 protected:
  std::vector<double> truth = std::vector<double>(4096), base = truth;
  void SetUp() override {
    for (std::size_t i = 0; i < truth.size(); ++i) {
      truth[i] = std::cos(static_cast<double>(i));
      base[i] = truth[i] * (1 + (i % 2 ? 1e-7 : -1e-7));
    }
  }
};

TEST_F(Rules, EachAcceptsTheBase) {
  for (const RivalRule& rule : rival_rules())
    EXPECT_TRUE(passes(rule.name, base, truth, base)) << rule.name;
}

TEST_F(Rules, EachRefusesNoiseZerosAndNaN) {
  std::vector<double> negated = truth, nan = truth;
  for (double& v : negated) v = -v;
  nan[7] = std::nan("");
  for (const RivalRule& rule : rival_rules()) {
    EXPECT_FALSE(passes(rule.name, negated, truth, base)) << rule.name;
    EXPECT_FALSE(passes(rule.name, std::vector<double>(truth.size()), truth, base)) << rule.name;
    EXPECT_FALSE(passes(rule.name, nan, truth, base)) << rule.name;
  }
}

// One dead token of 4096, of ordinary size: global norms do not see it.
TEST_F(Rules, ADeadElementPassesTheGlobalOnes) {
  std::vector<double> dead = base;
  dead[3] = 0;
  EXPECT_TRUE(passes("NMSE 5e-4", dead, truth, base) == (truth[3] * truth[3] <= 5e-4 * 2048));
  EXPECT_TRUE(passes("cosine 0.99", dead, truth, base));
  EXPECT_FALSE(passes("allclose 1e-2", dead, truth, base));
  EXPECT_FALSE(passes("2x baseline", dead, truth, base));
}

TEST_F(Rules, SmallErrorsPassTheWideOnes) {
  std::vector<double> off = truth;
  for (double& v : off) v *= 1.004;
  for (const char* rule : {"NMSE 5e-4", "ratio 0.005", "cosine 0.99", "allclose 1e-2"})
    EXPECT_TRUE(passes(rule, off, truth, base)) << rule;
  for (const char* rule : {"2x baseline", "same", "benchmark L0"})
    EXPECT_FALSE(passes(rule, off, truth, base)) << rule;
}

}  // namespace
}  // namespace parity
