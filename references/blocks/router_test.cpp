// Selection, its ties and margins, and the orders of softmax and choice (k3.md §9).
#include "references/blocks/router.hpp"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "harness/walk.hpp"
#include "references/blocks/open.hpp"

namespace parity::net {
namespace {

using ::testing::ElementsAre;

std::vector<std::int64_t> of_equals(std::size_t experts, std::int64_t k, bool torch) {
  return largest<double>(std::vector<double>(experts, 0.5), k, torch).ids;
}

TEST(Router, LowestIndexWinsATie) {
  EXPECT_THAT(of_equals(6, 2, false), ElementsAre(0, 1));
  const std::vector<double> s = {0.1, 0.7, 0.3, 0.7, 0.3};
  EXPECT_THAT(largest<double>(s, 3, false).ids, ElementsAre(1, 2, 3));
}

// k3.md §10, 28: what torch.topk on a CPU returns for equal scores.
TEST(Router, TorchChoosesAmongEquals) {
  EXPECT_THAT(of_equals(6, 2, true), ElementsAre(3, 5));
  EXPECT_THAT(of_equals(8, 2, true), ElementsAre(5, 6));
  const std::vector<std::int64_t> many = of_equals(896, 16, true);
  EXPECT_EQ(many.front(), 589);
  EXPECT_EQ(many.back(), 612);
}

TEST(Router, MarginIsTheGapBehindTheLastChoice) {
  const std::vector<double> s = {0.1, 0.7, 0.25, 0.5};
  EXPECT_DOUBLE_EQ(largest<double>(s, 2, false).margin, 0.25);
  EXPECT_EQ(largest<double>(s, 4, false).margin, std::numeric_limits<double>::infinity());
}

// One declared fp64 case of the router under other options.
Expected answer(std::string_view fill, const Options& options) {
  for (Case c : expand(registry(), Lane::Smoke)) {
    if (c.op != "router" || c.fill != fill || c.dtype != Dtype::F32) continue;
    c.options = options;
    c.dtype = Dtype::F64;
    const OpDef& op = registry().op_or_throw("router");
    const Tensors inputs = generate(c, op, 1);
    c.dtype = Dtype::F32;  // no companions
    return op.reference(c, inputs, true);
  }
  ADD_FAILURE() << "no case with fill " << fill;
  return {};
}

double apart(const Expected& a, const Expected& b, std::string_view tensor) {
  const std::vector<double>&x = a.find(tensor)->value, &y = b.find(tensor)->value;
  double most = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(x[i] - y[i]));
    size = std::max(size, std::abs(x[i]));
  }
  return most / size;
}

constexpr std::string_view kCompared[] = {"weights", "weights_by_expert", "grads/inputs/x",
                                          "grads/params/gate.weight"};

TEST(Router, SoftmaxBeforeTheChoiceRenormalisedIsSoftmaxAfterIt) {
  const Expected before =
      answer("normal", {{"score", "softmax"}, {"renorm_eps", "0"}, {"bias", "0"}});
  const Expected after = answer("normal", {{"score", "topk_softmax"}, {"bias", "0"}});
  for (const std::string_view tensor : kCompared)
    EXPECT_LT(apart(before, after, tensor), 1e-13) << tensor;
}

TEST(Router, WithoutRenormalisationTheyDifferBothWays) {
  const Expected before = answer("normal", {{"score", "softmax"}, {"renorm", "0"}, {"bias", "0"}});
  const Expected after = answer("normal", {{"score", "topk_softmax"}, {"bias", "0"}});
  for (const std::string_view tensor : kCompared)
    EXPECT_GT(apart(before, after, tensor), 0.05) << tensor;
}

TEST(Router, OneRenormalisedChoiceHasNoGradient) {
  for (const Case& c : expand(registry(), Lane::Smoke)) {
    if (c.op != "router" || c.sizes["K"] != 1 || !c.options.empty()) continue;
    const OpDef& op = registry().op_or_throw("router");
    const Expected e = op.reference(c, generate(c, op, 1), true);
    for (const double w : e.find("weights")->value) EXPECT_DOUBLE_EQ(w, 1);
    for (const double g : e.find("grads/params/gate.weight")->value) EXPECT_EQ(g, 0);
  }
}

// Pairs of equal experts: some tokens are open, the others are not, and sums over tokens all are.
TEST(Router, NearTiesAreLeftOpen) {
  const OpDef& op = registry().op_or_throw("router");
  for (const Case& c : expand(registry(), Lane::Full)) {
    if (c.op != "router" || c.fill != "near_ties") continue;
    const Expected e = op.reference(c, generate(c, op, 1), true);
    const std::vector<std::uint8_t>& open = e.find("ids")->ignore;
    const auto count = std::ranges::count(open, std::uint8_t{1});
    EXPECT_GT(count, 0);
    EXPECT_LT(count, std::ssize(open));
    EXPECT_EQ(count % c.sizes["K"], 0);
    EXPECT_EQ(std::ranges::count(e.find("grads/params/gate.weight")->ignore, std::uint8_t{0}), 0);
    EXPECT_TRUE(e.find("margin")->ignore.empty());
    return;
  }
  FAIL() << "no such case";
}

}  // namespace
}  // namespace parity::net
