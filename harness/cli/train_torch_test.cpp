// parity train: the same bits twice, and after a stop; members of an ensemble and faults differ.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

class Train : public CommandLine {
 protected:
  // The log, without what depends on the clock.
  std::vector<nlohmann::json> trained(const std::string& name, const std::string& options) const {
    const Ran ran = parity("train " + name + " --steps 6 --length 16 --batch 2 " + options);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    std::istringstream lines(text(name + "/log.jsonl"));
    std::vector<nlohmann::json> list;
    for (std::string line; std::getline(lines, line);) {
      list.push_back(nlohmann::json::parse(line));
      list.back().erase("tokens_per_s");
    }
    return list;
  }
};

TEST_F(Train, TwiceAndAfterAStopTheBitsAreTheSame) {
  const auto whole = trained("whole", "");
  ASSERT_EQ(whole.size(), 6U);
  EXPECT_GT(whole[0].size(), 60U) << "a norm of every parameter";
  EXPECT_EQ(trained("again", ""), whole);
  trained("parts", "--until 3 --save at3");
  EXPECT_EQ(trained("parts", "--continue at3"), whole);
}

TEST_F(Train, AnUlpOfNoiseIsSeenAndSoIsAFault) {
  const auto clean = trained("clean", ""), member = trained("member", "--noise 1");
  EXPECT_NE(member, clean);
  EXPECT_NEAR(member[5]["loss"].get<double>(), clean[5]["loss"].get<double>(), 1e-3);
  const auto fault = trained("fault", "--fault expert_grad_halved");
  const std::string norm = "grad_norm/model.layers.1.block_sparse_moe.experts.0.w1.weight";
  EXPECT_EQ(fault[0].at(norm).get<double>(), 0.5 * clean[0].at(norm).get<double>());
  EXPECT_EQ(fault[0].at("loss"), clean[0].at("loss"));
}

TEST_F(Train, ItsLogsAreReadByDrift) {
  trained("a", "--noise 1");
  trained("b", "--noise 2");
  const Ran ran = parity("drift a b/log.jsonl");  // events of one, JSONL of the other
  EXPECT_EQ(ran.exit, 4) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("steps       6, 0 to 5"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace parity::cli
