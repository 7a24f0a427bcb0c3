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
#include "harness/cli/terminal.hpp"
#include "reports/reports.hpp"

namespace parity::cli {

class Session {
 public:
  // Takes the folder of --out (interface.md §1: an existing one is refused unless --resume or
  // --force).
  Session(const Arguments&, Lane lane);

  std::set<std::string> finished() const;  // keys of the records that --resume found
  void run(const std::vector<Subject>&, const std::string& phase);
  void add(const CaseRecord&);
  void prove(const std::function<MutationReport(ProgressLine&)>&);  // mutants
  void complain(const std::string& text,
                int exit);  // a golden refused, say: shown, recorded, counted in the exit code
  // Writes the reports and prints the result; the exit code of all that was added.
  int close();

 private:
  Arguments args_;
  std::filesystem::path dir_;
  reports::RunFolder folder_;
  std::unique_ptr<reports::RecordWriter> writer_;
  reports::Pictures pictures_;
  ProgressLine progress_;
  Tally tally_;
  std::set<std::string> finished_;
  int worst_ = 0;  // exit codes beyond the tally's
};

}  // namespace parity::cli
