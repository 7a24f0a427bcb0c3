// The gate's long lane: small models trained here and judged. Nine members of an ensemble, one of
// them a candidate that must pass, and two candidates with a fault that must fail.
#include <algorithm>
#include <array>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cli/catalogue.hpp"
#include "harness/cli/drift_runs.hpp"
#include "harness/cli/stage.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kReferences = 8, kAtATime = 2;
constexpr double kAlpha = 0.125;  // what eight references allow: 1/9 is below it

struct Run {
  std::string name = {};
  int noise = 0;
  std::string fault = "none";
};

std::vector<Run> runs() {
  std::vector<Run> list;
  for (int i = 1; i <= kReferences; ++i) list.push_back({fmt::format("ref_{}", i), i});
  list.push_back({"clean", kReferences + 1});
  list.push_back({"fault_layer1_grad_x1p01", kReferences + 2, "layer1_grad_x1p01"});
  list.push_back({"fault_loss_over_padding", kReferences + 3, "loss_over_padding"});
  return list;
}

pid_t start(const fs::path& folder, const Run& run) {
  std::vector<std::string> words = {executable().string(),
                                    "train",
                                    (folder / run.name).string(),
                                    "--noise",
                                    std::to_string(run.noise),
                                    "--fault",
                                    run.fault,
                                    "--steps",
                                    "40",
                                    "--batch",
                                    "2",
                                    "--length",
                                    "24"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw Failure("a training run cannot be started");
  return pid;
}

// In pairs; the names of those that did not end well.
std::vector<std::string> train_all(const fs::path& folder) {
  std::vector<std::string> broken;
  const std::vector<Run> list = runs();
  for (std::size_t i = 0; i < list.size(); i += kAtATime) {
    std::vector<std::pair<pid_t, std::string>> now;
    for (std::size_t k = i; k < std::min(list.size(), i + kAtATime); ++k)
      now.emplace_back(start(folder, list[k]), list[k].name);
    for (const auto& [pid, name] : now) {
      int status = 0;
      if (::waitpid(pid, &status, 0) != pid || status != 0) broken.push_back(name);
    }
  }
  return broken;
}

CaseRecord record_of(const std::string& log, bool must_fail) {
  return {.id = fmt::format("drift/trained:small@log.{}", log),
          .op = "drift",
          .kernel = "log." + log,
          .dtype = "float32",
          .fill = "trained",
          .direction = "both",
          .check = "drift",
          .lane = "long",
          .expected = must_fail ? "fail" : ""};
}

void run(const fs::path&, const std::function<void(CaseRecord)>& add) {
  const std::array<std::pair<const char*, bool>, 3> candidates = {
      {{"clean", false}, {"fault_layer1_grad_x1p01", true}, {"fault_loss_over_padding", true}}};
  std::string unsupported = torch_library_path().empty() ? "this build is without LibTorch" : "";
  const fs::path folder = fs::temp_directory_path() / fmt::format("parity-train-{}", ::getpid());
  std::vector<std::string> broken;
  if (unsupported.empty()) {
    fs::create_directories(folder);
    broken = train_all(folder);
  }
  for (const auto& [log, must_fail] : candidates) {
    CaseRecord record = record_of(log, must_fail && unsupported.empty());
    if (!unsupported.empty()) {
      record.status = name(Status::Unsupported);
      record.reason = unsupported;
    } else if (!broken.empty()) {
      record.status = name(Status::Error);
      record.error_kind = "crash";
      record.reason = fmt::format("training runs that did not end: {}", fmt::join(broken, ", "));
    } else {
      DriftQuestion question{.candidate = (folder / log / "log.jsonl").string(), .alpha = kAlpha};
      for (int i = 1; i <= kReferences; ++i)
        question.references.push_back((folder / fmt::format("ref_{}", i) / "log.jsonl").string());
      const reports::DriftReport report = judge_logs(question);
      record.status = name(report.judgement.verdict);
      record.reason = fmt::format("p = {:.4f}: {}", report.judgement.p, report.judgement.reason);
    }
    add(std::move(record));
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

const RegisterStage stage{{.name = "train", .lane = Lane::Long, .run = run}};

}  // namespace
}  // namespace parity::cli
