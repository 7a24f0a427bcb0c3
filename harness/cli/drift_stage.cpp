// The gate's part on training drift: the shipped logs of real runs come out as they must.
// golden/independent/drift_logs/EXPECTED.tsv names each candidate and its verdict.
#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

#include "harness/cli/drift_runs.hpp"
#include "harness/cli/stage.hpp"
#include "harness/failure.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

CaseRecord judged(const fs::path& folder, const std::string& log, bool must_fail) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  CaseRecord record{
      .id = fmt::format("drift/{}:ensemble@log.{}", folder.filename().string(), log),
      .op = "drift",
      .kernel = "log." + log,
      .dtype = "float32",
      .fill = "recorded",
      .direction = "both",
      .check = "drift",
      .lane = "smoke",
      .expected = must_fail ? "fail" : "",
      .repro = fmt::format("parity drift {0}/{1}.csv {0}/ref_*.csv", folder.string(), log)};
  try {
    const reports::DriftReport report = judge_logs({.candidate = (folder / (log + ".csv")).string(),
                                                    .references = files_of(folder, "ref_*.csv")});
    record.status = name(report.judgement.verdict);
    record.reason = fmt::format("p = {:.4f}: {}", report.judgement.p, report.judgement.reason);
    record.sizes = {{"R", report.judgement.references + 1}, {"T", report.steps}};
    record.sizes_text = fmt::format("R{},T{}", report.judgement.references + 1, report.steps);
  } catch (const UsageError& error) {
    record.status = name(Status::Error);
    record.error_kind = "harness";
    record.reason = error.what();
  }
  record.time_ms.compare = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return record;
}

void run(const fs::path& golden, const std::function<void(CaseRecord)>& add) {
  const fs::path folder = golden / "independent" / "drift_logs";
  std::ifstream table(folder / "EXPECTED.tsv");
  if (!table) throw GoldenError((folder / "EXPECTED.tsv").string() + ": is missing");
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string log, verdict;
    words >> log >> verdict;
    add(judged(folder, log, verdict == "fail"));
  }
}

const RegisterStage stage{{.name = "drift", .run = run}};

}  // namespace
}  // namespace parity::cli
