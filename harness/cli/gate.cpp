// parity gate: what a CI job needs, in one folder and one page: goldens, recordings, the lane with
// its bitwise and exact sets, and the mutants that prove that the gate can fail.
#include <algorithm>
#include <filesystem>

#include "golden/golden.hpp"
#include "harness/cli/catalogue.hpp"
#include "harness/cli/mutate.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/session.hpp"
#include "harness/cli/stage.hpp"
#include "harness/failure.hpp"

namespace parity::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> golden_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && golden::is_golden(entry.path())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

void judge_file(Session& session, const fs::path& file) {
  try {
    golden::check_integrity(file);
    const bool recording =
        golden::family_of(golden::stored_cases(file)) == golden::Family::Recording;
    std::vector<Subject> verified = golden::verify_subjects(file, "");
    if (recording) {
      session.run(golden::recording_subjects(file), file.filename().string(), from_recording(file));
      // Beyond that, the bits of contracts that leave none open.
      std::erase_if(verified,
                    [](const Subject& s) { return !s.candidates.front().unsupported.empty(); });
    }
    if (!verified.empty()) session.run(verified, file.filename().string(), from_golden(file));
  } catch (const GoldenError& error) {
    session.complain(error.what(), 5);
  } catch (const UsageError& error) {
    session.complain(error.what(), 2);
  }
}

void run_stage(Session& session, const GateStage& stage, const fs::path& folder) {
  try {
    stage.run(folder, [&](CaseRecord record) { session.add_finished(std::move(record)); });
  } catch (const GoldenError& error) {
    session.complain(error.what(), 5);
  }
}

}  // namespace

int gate(const Arguments& args) {
  const Lane lane = lane_of(args, Lane::Full);
  const std::vector<Subject> subjects = select(args, lane);
  Session session(args, lane);
  if (const fs::path folder = golden_folder(); folder.empty()) {
    session.complain(
        "no golden folder here, nor beside the executable: nothing was verified against stored "
        "truth",
        5);
  } else {
    try {
      golden::check_manifest(folder);
    } catch (const GoldenError& error) {
      session.complain(error.what(), 5);
    }
    for (const fs::path& file : golden_files(folder)) judge_file(session, file);
    for (const GateStage& stage : gate_stages())
      if (stage.lane <= lane) run_stage(session, stage, folder);
  }
  session.run(subjects, std::string(name(lane)));
  session.prove(
      [&](ProgressLine& progress) { return mutation_report(args, Lane::Smoke, progress); });
  return session.close();
}

}  // namespace parity::cli
