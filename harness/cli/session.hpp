// One run and its folder: every record is on disk before the next case starts, the reports are
// written at the end.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "harness/cli/arguments.hpp"
#include "harness/cli/quantised.hpp"
#include "harness/cli/record_store.hpp"
#include "harness/cli/terminal.hpp"
#include "reports/reports.hpp"

namespace parity::cli {

class Session {
 public:
  // Takes the folder of --out (interface.md §1: an existing one is refused unless --resume or
  // --force).
  Session(const Arguments&, Lane lane);

  // `amend` may complete a record before it is written. False once a signal has ended the run.
  using Amend = std::function<void(CaseRecord&)>;
  bool run(const std::vector<Subject>&, const std::string& phase, const Amend& amend = {});
  void add_finished(CaseRecord);  // of a part that judges for itself
  void prove(const std::function<MutationReport(ProgressLine&)>&);  // mutants
  void complain(const std::string& text,
                int exit);  // a golden refused, say: shown, recorded, counted in the exit code
  // Writes the reports and prints the result; the exit code of all that was added.
  int close();

 private:
  Arguments args_;
  SuiteOptions options_;
  std::filesystem::path dir_;
  reports::RunFolder folder_;  // its cases only at the end
  RecordStore records_;
  std::unique_ptr<reports::RecordWriter> writer_;
  reports::Pictures pictures_;
  QuantisedChoice quantised_;
  ProgressLine progress_;
  Tally tally_;
  std::set<std::string> finished_;
  std::int64_t dumped_ = 0;      // bytes of the dumps so far
  std::int64_t not_dumped_ = 0;  // cases that --dump-limit left out
  int worst_ = 0;                // exit codes beyond the tally's
  bool interrupted_ = false;

  void add(CaseRecord);
  void dump(const std::vector<Subject>&, const CaseRecord&);
  void show_quantised(const std::vector<Subject>&, const CaseRecord&);
};

// The lines that rerun what was read from a file: a stored case is no case of the registry.
Session::Amend from_recording(const std::filesystem::path& file);
Session::Amend from_golden(const std::filesystem::path& file);

}  // namespace parity::cli
