// parity drift on the shipped logs of real runs, and what it says and returns.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/case.hpp"
#include "harness/cli/command_line_test.hpp"
#include "harness/cli/drift_runs.hpp"

namespace parity::cli {
namespace {

using Drift = CommandLine;

const fs::path kLogs = fs::path(test::kSourceDir) / "golden" / "independent" / "drift_logs";

// Every row of the table of those runs: verdict, and the parameter that left its band first.
TEST(DriftLogs, EveryShippedRunHasItsVerdict) {
  std::ifstream table(kLogs / "EXPECTED.tsv");
  int rows = 0, failing = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string log, verdict, parameter;
    words >> log >> verdict >> parameter;
    const reports::DriftReport report = judge_logs({.candidate = (kLogs / (log + ".csv")).string(),
                                                    .references = files_of(kLogs, "ref_*.csv")});
    const drift::Judgement& j = report.judgement;
    EXPECT_EQ(name(j.verdict), verdict) << log << ": " << j.reason;
    EXPECT_EQ(j.columns.size(), 14U) << log;
    if (verdict == "fail") {
      ++failing;
      ASSERT_TRUE(j.first_parameter.has_value()) << log;
      EXPECT_TRUE(glob_match(parameter, j.columns[*j.first_parameter].name))
          << log << " named " << j.columns[*j.first_parameter].name;
    } else {
      EXPECT_TRUE(j.columns[0].detectable.has_value()) << log;
    }
    if (log == "fault_layer1_grad_x1p01_0") {
      EXPECT_GT(j.columns[0].p, 0.5) << "the loss sees nothing";
    }
    ++rows;
  }
  EXPECT_EQ(rows, 15);
  EXPECT_EQ(failing, 6);
}

TEST_F(Drift, ExitCodesAndTheDocument) {
  const std::string refs = kLogs.string() + "/ref_*.csv";
  const Ran clean = parity(fmt::format("drift {}/clean_00.csv {}", kLogs.string(), refs));
  EXPECT_EQ(clean.exit, 0) << clean.out << clean.err;
  EXPECT_NE(clean.out.find("\nPASS  p = "), std::string::npos) << clean.out;
  const Ran fault =
      parity(fmt::format("drift {}/fault_layer1_grad_x1p01_0.csv {} --json", kLogs.string(), refs));
  EXPECT_EQ(fault.exit, 1) << fault.err;
  const nlohmann::json document = nlohmann::json::parse(fault.out);
  EXPECT_EQ(document.at("schema"), 1);
  EXPECT_EQ(document.at("verdict"), "fail");
  EXPECT_EQ(document.at("k"), 32);
  EXPECT_EQ(document.at("alpha"), 0.05);
  EXPECT_DOUBLE_EQ(document.at("p").get<double>(), 1.0 / 33);
  EXPECT_DOUBLE_EQ(document.at("min_p").get<double>(), 1.0 / 33);
  EXPECT_EQ(document.at("first_difference"), 0);
  EXPECT_TRUE(document.at("smallest_detectable").is_number());
  EXPECT_EQ(document.at("first_parameter"), "grad_norm/b.1.o.weight");
  for (const auto& series : document.at("series"))
    for (const char* key : {"name", "p", "max_sigma", "step", "slope_p"})
      EXPECT_TRUE(series.contains(key)) << key;
  const Ran strict =
      parity(fmt::format("drift {}/clean_00.csv {} --alpha 0.01", kLogs.string(), refs));
  EXPECT_EQ(strict.exit, 4);
  EXPECT_NE(strict.out.find("needs 99 of them"), std::string::npos) << strict.out;
}

TEST_F(Drift, TwoRunsAreUnprovenWithAWeakerHint) {
  const Ran two = parity(fmt::format("drift {0}/clean_00.csv {0}/ref_00.csv", kLogs.string()));
  EXPECT_EQ(two.exit, 4);
  EXPECT_NE(two.out.find("a hint, no verdict"), std::string::npos) << two.out;
  const Ran same = parity(fmt::format("drift {0}/ref_00.csv {0}/ref_00.csv", kLogs.string()));
  EXPECT_EQ(same.exit, 0) << same.out;
  EXPECT_NE(same.out.find("bit for bit"), std::string::npos) << same.out;
}

TEST_F(Drift, ARepeatedReferenceCountsOnce) {
  std::string words;
  for (int i = 0; i < 19; ++i) {
    fs::copy(kLogs / "ref_00.csv", dir / fmt::format("ref_{}.csv", i));
    words += fmt::format(" ref_{}.csv", i);
  }
  const Ran ran = parity(fmt::format("drift {}/clean_00.csv{}", kLogs.string(), words));
  EXPECT_EQ(ran.exit, 4) << ran.out;
  EXPECT_NE(ran.out.find("the two count as one reference"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("with 1 reference p cannot"), std::string::npos) << ran.out;
}

TEST_F(Drift, OddLogsAreReportedNotAveraged) {
  std::string clean = "step,loss,time\n", odd = "iteration,lm loss,elapsed\n";
  for (int t = 0; t < 100; ++t) clean += fmt::format("{},{:.6f},{}\n", t, 5.0 / (t + 1), t * 0.3);
  for (int t = 0; t < 60; ++t) {
    if (t == 17) continue;
    odd += fmt::format("{},{:.6f},{}\n", t, 5.0 / (t + 1), t);
  }
  for (int t = 50; t < 100; ++t)
    odd += fmt::format("{},{:.6f},{}\n", t, 5.0 / (t + 1) * (t == 55 ? 1.5 : 1), t);
  put("clean.csv", clean);
  put("odd.csv", odd);
  const Ran ran = parity("drift odd.csv clean.csv");
  EXPECT_EQ(ran.exit, 4) << ran.out << ran.err;
  for (const char* words :
       {"1 step missing, the first is 17", "restarted 1 time, first back to step 50",
        "10 steps logged again", "logged again with another value, the first is 55",
        "99 of 100 logged steps", "not judged  elapsed, time"})
    EXPECT_NE(ran.out.find(words), std::string::npos) << words << "\n" << ran.out;
}

TEST_F(Drift, NoNumberFails) {
  put("a.csv", "step,loss\n0,3\n1,nan\n2,1\n");
  put("b.csv", "step,loss\n0,3\n1,2\n2,1\n");
  const Ran ran = parity("drift a.csv b.csv");
  EXPECT_EQ(ran.exit, 1) << ran.out;
  EXPECT_NE(ran.out.find("loss is no number at step 1"), std::string::npos) << ran.out;
}

TEST_F(Drift, HostileFilesAreRefusedInOneLine) {
  put("good.csv", "step,loss\n0,3\n1,2\n");
  put("empty.csv", "");
  put("words.csv", "step,loss\n0,three\n");
  put("ragged.csv", "step,loss\n0,3,4\n1,2\n");
  put("nosteps.csv", "epoch,loss\n0,3\n");
  put("steps.csv", "step,loss\n0.5,3\n");
  put("binary.csv", std::string("\0\1\2\3 step,loss\n", 16));
  put("broken.jsonl", "{\"step\": 0, \"loss\": 3}\n{\"step\": 1, \"loss\": \n{}\n");
  put("deep.jsonl", "{\"step\":" + std::string(100000, '[') + "\n");
  put("twice.csv", "step,loss,loss\n0,3,4\n");
  for (const auto& [file, words] : std::vector<std::pair<std::string, std::string>>{
           {"empty.csv", "is empty"},
           {"words.csv", "line 2 has 'three' as loss"},
           {"ragged.csv", "line 2 has 3 fields"},
           {"nosteps.csv", "names no column of steps"},
           {"steps.csv", "which is no step"},
           {"binary.csv", "NUL"},
           {"broken.jsonl", "line 2 is no JSON object"},
           {"deep.jsonl", "line 1"},
           {"twice.csv", "names the column 'loss' twice"},
           {"absent.csv", "no such file"}}) {
    expect_refused("drift " + file + " good.csv", words);
    expect_refused("drift good.csv " + file, words);
  }
  expect_refused("drift good.csv good.csv --alpha 2", "--alpha");
  expect_refused("drift good.csv good.csv --loss perplexity", "it has loss");
}

}  // namespace
}  // namespace parity::cli
