// parity run: the cases that the arguments name, or the recordings of --recording, judged and
// recorded.
#include "golden/golden.hpp"
#include "harness/cli/select.hpp"
#include "harness/cli/session.hpp"
#include "harness/failure.hpp"

namespace parity::cli {

int run(const Arguments& args) {
  const Lane lane = lane_of(args, Lane::Smoke);
  std::vector<Subject> subjects;
  if (args.recordings.empty()) {
    subjects = select(args, lane);
  } else {
    for (const std::string& file : args.recordings)
      for (Subject& subject : golden::recording_subjects(file))
        subjects.push_back(std::move(subject));
    subjects = narrow(std::move(subjects), args);
  }
  Session session(args, lane);
  session.run(subjects, "");
  return session.close();
}

}  // namespace parity::cli
