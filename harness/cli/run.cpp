// parity run: the cases that the arguments name, or the recordings of --recording, judged and
// recorded. Commands of --exec: exec.cpp.
#include <algorithm>
#include <fmt/format.h>

#include "golden/golden.hpp"
#include "harness/cli/candidates.hpp"
#include "harness/cli/planted.hpp"
#include "harness/cli/ranks.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/session.hpp"
#include "harness/cli/verb.hpp"
#include "harness/failure.hpp"
#include "harness/plugin_kernels.hpp"

namespace parity::cli {
namespace {

bool fail_fast = false;
const MoreOptions more{"run",
                       {{.names = "--fail-fast",
                         .to = &fail_fast,
                         .what = "Begin no further case once one has failed or not finished"}}};

int run_recordings(const Arguments& args, Lane lane) {
  std::vector<std::vector<Subject>> files;
  for (const std::string& file : args.recordings)
    files.push_back(narrow(golden::recording_subjects(file), args));
  Session session(args, lane);
  for (std::size_t i = 0; i < files.size(); ++i)
    session.run(files[i], args.recordings.size() > 1 ? args.recordings[i] : "",
                from_recording(args.recordings[i]));
  return session.close();
}

}  // namespace

std::vector<Subject> candidates_of(const Arguments& args, Lane lane) {
  const std::string plugins = load_plugins();
  if (!args.exec.empty()) {
    if (!args.fault.empty() || !plugins.empty())
      throw UsageError("--exec: a command, without --fault or --plugin beside it");
    return command_subjects(args, lane);
  }
  if (!args.contract.empty()) throw UsageError("--contract: says how --exec is judged");
  std::vector<Subject> subjects = select(args, lane);
  if (!plugins.empty()) {
    const bool named =
        !args.kernel.empty() || std::ranges::any_of(patterns_of(args), [](const auto& pattern) {
          return pattern.find('@') != std::string::npos;
        });
    for (Subject& subject : subjects) {
      subject.command += plugins;
      if (!named)
        std::erase_if(subject.candidates,
                      [](const Candidate& each) { return plugin_of(each.name).empty(); });
    }
    std::erase_if(subjects, [](const Subject& subject) { return subject.candidates.empty(); });
    if (subjects.empty()) throw UsageError("--plugin: none of these cases is of its ops and types");
  }
  if (!args.fault.empty()) plant(subjects, args.fault);
  return subjects;
}

int run(const Arguments& given) {
  const Arguments args = with_ranks(given);
  const Lane lane = lane_of(args, Lane::Smoke);
  if (!args.fault.empty() && !args.recordings.empty())
    throw UsageError("--fault: of kernels, not of a recording");
  if (!args.recordings.empty() && args.exec.empty()) return run_recordings(args, lane);
  std::vector<Subject> subjects = candidates_of(args, lane);
  keep_ranks(subjects);
  Session session(with_grace(args), lane);
  bool failed = false;
  const Session::Amend amend = [&](CaseRecord& record) {
    if (!args.exec.empty()) amend_command(record, "parity run", args);
    failed |= record.status == name(Status::Fail) || record.status == name(Status::Error);
  };
  if (!fail_fast) {
    session.run(subjects, "", amend);
    return session.close();
  }
  // A few cases at a time: what has begun is finished, and nothing begins after a failure.
  constexpr std::size_t kAtATime = 4;
  std::size_t begun = 0;
  while (begun < subjects.size() && !failed) {
    const std::size_t end = std::min(begun + kAtATime, subjects.size());
    const auto at = [&](std::size_t i) {
      return subjects.begin() + static_cast<std::ptrdiff_t>(i);
    };
    if (!session.run({at(begun), at(end)}, fmt::format("{}/{}", begun, subjects.size()), amend))
      break;
    begun = end;
  }
  if (begun < subjects.size())
    complain(fmt::format("--fail-fast: {} of {} cases were not begun", subjects.size() - begun,
                         subjects.size()));
  return session.close();
}

}  // namespace parity::cli
