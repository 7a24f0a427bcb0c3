#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line_test.hpp"

namespace parity::cli {
namespace {

TEST_F(CommandLine, RulesOfOthersStandBesideOurs) {
  const Ran ran = parity("rules 'l2norm/N66,D13/f32/*' -q --json");
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  ASSERT_EQ(json["rules"].size(), 9u);
  for (const auto& rule : json["rules"]) {
    EXPECT_GT(rule["mutants"], 4);
    EXPECT_GT(rule["clean"], 50);
    EXPECT_LE(rule["killed"], rule["mutants"]);
  }
  const auto& here = json["rules"].back();
  EXPECT_EQ(here["killed"], here["mutants"]);
  EXPECT_EQ(here["false_alarms"], 0);
  expect_refused("rules 'nothing/*'", "no case of values");
}

}  // namespace
}  // namespace parity::cli
