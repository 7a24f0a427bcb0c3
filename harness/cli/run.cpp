// parity run: the cases that the arguments name, or the recordings of --recording, judged and
// recorded. Commands of --exec: exec.cpp.
#include "golden/golden.hpp"
#include "harness/cli/planted.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/session.hpp"
#include "harness/failure.hpp"

namespace parity::cli {

namespace {

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

int run(const Arguments& args) {
  const Lane lane = lane_of(args, Lane::Smoke);
  if (!args.fault.empty() && (!args.exec.empty() || !args.recordings.empty()))
    throw UsageError("--fault: of kernels, not of a command or a recording");
  if (!args.exec.empty()) return run_command(args);
  if (!args.contract.empty()) throw UsageError("--contract: says how --exec is judged");
  if (!args.recordings.empty()) return run_recordings(args, lane);
  std::vector<Subject> subjects = select(args, lane);
  if (!args.fault.empty()) plant(subjects, args.fault);
  Session session(args, lane);
  session.run(subjects, "");
  return session.close();
}

}  // namespace parity::cli
