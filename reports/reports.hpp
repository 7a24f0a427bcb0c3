// From records to text: each function is one file. Nothing is recomputed here.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/suite.hpp"

namespace parity::reports {

// A finished (or interrupted) run, as its folder holds it.
struct RunFolder {
  RunRecord run = {};
  std::vector<CaseRecord> cases = {};
  std::vector<MutantRecord> mutants = {};
  std::optional<MutationSummary> mutation = {};
  double wall_ms = 0;
  int exit = 4;
};

// JSON (json.cpp): floats shortest-round-trip, NaN and infinities as strings.
std::string to_json_line(const RunRecord&);
std::string to_json_line(const CaseRecord&);
std::string to_json_line(const MutantRecord&);
std::string summary_json(const RunFolder&, const std::filesystem::path& dir);
RunFolder read_run(const std::filesystem::path& dir);  // tolerates a torn last line; UsageError if it is no run

// Appends records as they finish: written, flushed and fsynced before the next case starts.
class RecordWriter {
 public:
  RecordWriter(const std::filesystem::path& dir, const RunRecord&, bool resume);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(const CaseRecord&);
  void write(const MutantRecord&);

 private:
  std::FILE* file_ = nullptr;
};

struct ConsoleStyle {
  bool colour = false;
  bool verbose = false;
  int width = 120;
};
std::string console_header(const RunRecord&);
std::string console_row(const CaseRecord&, const ConsoleStyle&);      // one line
std::string console_failure(const CaseRecord&, const ConsoleStyle&);  // what, where, ten worst points, repro
std::string console_footer(const RunFolder&, const ConsoleStyle&);    // ends with the summary line
std::string console_mutants(const std::vector<MutantRecord>&, const MutationSummary&, const ConsoleStyle&);
std::string summary_line(const Counts&);  // "N pass, N fail, N unproven, N unsupported, N error, N waived"

std::string html(const RunFolder&);
std::string junit(const RunFolder&);
std::string markdown(const RunFolder&);  // below 1 MiB

// All files of a run's folder but records.jsonl, each written atomically.
void write_reports(const RunFolder&, const std::filesystem::path& dir);

}  // namespace parity::reports
