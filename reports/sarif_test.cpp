// What code hosts read: SARIF and workflow commands.
#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/registry.hpp"
#include "reports/reports.hpp"
#include "reports/sample_test.hpp"

namespace parity::reports {
namespace {

using test::occurrences;
using test::sample_case;
using test::sample_run;

// A failing case of a kernel that this executable has.
CaseRecord failing(std::uint64_t seed) {
  const KernelDef& kernel =
      *std::ranges::find_if(registry().kernels, [](const KernelDef& k) { return k.op == "kda"; });
  return sample_case(std::string(kernel.op), std::string(kernel.name), "f32", "B1", "peak", 3,
                     false, seed);
}

TEST(Sarif, PointsAtTheKernel) {
  RunFolder folder;
  for (std::uint64_t seed = 0; seed < 3; ++seed) folder.cases.push_back(failing(seed));
  folder.cases.push_back(sample_case("kda", "no.such_kernel", "f32", "B1", "peak", 9, false, 1));
  const auto document = nlohmann::json::parse(sarif(folder));
  EXPECT_EQ(document["version"], "2.1.0");
  const auto& run = document["runs"][0];
  EXPECT_EQ(run["tool"]["driver"]["name"], "parity");
  ASSERT_EQ(run["results"].size(), 3U);  // without a place there is nothing to point at
  const auto& place = run["results"][0]["locations"][0]["physicalLocation"];
  EXPECT_EQ(place["artifactLocation"]["uri"].get<std::string>().find("kernels/"), 0U);
  EXPECT_GT(place["region"]["startLine"], 1);
  for (const auto& result : run["results"]) {
    EXPECT_EQ(result["level"], "error");
    EXPECT_NE(result["message"]["text"].get<std::string>().find("parity run '"), std::string::npos);
    bool known = false;
    for (const auto& rule : run["tool"]["driver"]["rules"]) known |= rule["id"] == result["ruleId"];
    EXPECT_TRUE(known) << result["ruleId"];
  }
  EXPECT_TRUE(nlohmann::json::parse(sarif({}))["runs"][0]["results"].empty());
}

TEST(Sarif, StaysWithinWhatIsShown) {
  RunFolder folder;
  folder.cases.resize(6000, failing(1));
  EXPECT_EQ(nlohmann::json::parse(sarif(folder))["runs"][0]["results"].size(), 5000U);
}

TEST(Annotations, ALineForEachKernelAndTenOfAKind) {
  EXPECT_EQ(annotations(sample_run(5, false)), "");
  RunFolder folder;
  for (std::uint64_t i = 0; i < 40; ++i)
    folder.cases.push_back(
        sample_case("kda", "kda.k" + std::to_string(i % 20), "f32", "B1", "peak", 3, false, i));
  folder.cases.push_back(failing(1));
  const std::string text = annotations(folder);
  EXPECT_EQ(occurrences(text, "::error "), 10U);
  EXPECT_NE(text.find("2 cases wrong"), std::string::npos);
  folder.cases = {failing(1)};
  EXPECT_NE(annotations(folder).find("::error file=kernels/"), std::string::npos);
}

TEST(Annotations, HostileTextStaysInItsLine) {
  RunFolder folder;
  folder.cases = {failing(1)};
  folder.cases[0].repro = "x\n::warning::gotcha\r%0A";
  folder.complaints = {{"a\n::error::b", 5}};
  const std::string text = annotations(folder);
  EXPECT_EQ(occurrences(text, "\n"), 2U);
  EXPECT_NE(text.find("%250A"), std::string::npos);
}

}  // namespace
}  // namespace parity::reports
