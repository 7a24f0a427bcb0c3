// From records to text: each function is one file. Nothing is recomputed here.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/suite.hpp"
#include "reports/quantised.hpp"

namespace parity::reports {

struct Waterfall;  // waterfall.hpp

// Something that belongs to no case: a golden that was refused.
struct Complaint {
  std::string text = {};
  int exit = 2;
};

// A finished (or interrupted) run, as its folder holds it.
struct RunFolder {
  RunRecord run = {};
  std::vector<CaseRecord> cases = {};
  std::vector<MutantRecord> mutants = {};
  std::vector<Quantised> quantised = {};
  std::optional<MutationSummary> mutation = {};
  std::vector<Complaint> complaints = {};
  double wall_ms = 0;
  int exit = 4;
};

// JSON (json.cpp): floats shortest-round-trip, NaN and infinities as strings.
std::string to_json_line(const RunRecord&);
std::string to_json_line(const CaseRecord&);
std::string to_json_line(const MutantRecord&);
std::string to_json_line(const MutationSummary&);
std::string to_json_line(const Complaint&);
std::string to_json(const TensorRecord&);
std::string summary_json(const RunFolder&, const std::filesystem::path& dir);

// A run's folder (run_folder.cpp). Tolerates a torn last line; UsageError, naming file and line, if
// it is no run.
RunFolder read_run(const std::filesystem::path& dir);
std::string slurp(const std::filesystem::path& file);  // UsageError if it cannot be read
void write_atomically(const std::filesystem::path& file,
                      std::string_view text);  // temporary file, fsync, rename

// Appends records as they finish: written, flushed and synced before the next case starts.
//   resume   keeps what stands in the file, less a torn last line; else the file is begun anew with
//   the run's line
class RecordWriter {
 public:
  RecordWriter(const std::filesystem::path& dir, const RunRecord&, bool resume);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(const CaseRecord&);
  void write(const MutantRecord&);
  void write(const MutationSummary&);
  void write(const Complaint&);
  void write(const Waterfall&);
  void write(const Quantised&);

 private:
  void append(std::string_view line);
  std::filesystem::path path_ = {};
  int file_ = -1;
};

// Which records keep their pictures (profiles, heatmaps, histogram, scatter, worst points): every
// one that is not a pass, and of the passing ones of an op, kernel, dtype, direction and check each
// that comes closer to its bound than those before it. The rest would make a folder of gigabytes
// that nobody looks at.
class Pictures {
 public:
  void thin(CaseRecord&);

 private:
  std::map<std::string, double> widest_ = {};
};

struct ConsoleStyle {
  bool colour = false;
  bool verbose = false;
  int width = 120;
};
std::string console_header(const RunRecord&);
std::string console_row(const CaseRecord&, const ConsoleStyle&);  // one line
std::string console_failure(const CaseRecord&,
                            const ConsoleStyle&);  // what, where, ten worst points, repro
std::string console_footer(const RunFolder&, const std::filesystem::path& page,
                           const ConsoleStyle&);  // ends with the summary line
// Groups of passes, failures expanded, footer; 40 lines unless verbose. `dir`: where the page lies.
std::string console_result(const RunFolder&, const std::filesystem::path& dir, const ConsoleStyle&);
// Failures expanded and the footer, without groups and without a page.
std::string console_verdicts(const RunFolder&, const ConsoleStyle&);
std::string console_mutants(const std::vector<MutantRecord>&, const MutationSummary&,
                            const ConsoleStyle&);
std::string summary_line(
    const Counts&);  // "N pass, N fail, N unproven, N unsupported, N error, N waived"

std::string html(const RunFolder&);
std::string junit(const RunFolder&);
std::string markdown(const RunFolder&);     // below 1 MiB
std::string sarif(const RunFolder&);        // failures with a place in the repository
std::string annotations(const RunFolder&);  // a line for each kernel that does not pass

// All files of a run's folder but records.jsonl, each written atomically.
void write_reports(const RunFolder&, const std::filesystem::path& dir);

}  // namespace parity::reports
