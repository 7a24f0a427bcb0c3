// A run's folder on disk: what a crash, a full disk or a pulled plug may leave is a whole number of
// records, or a report that is the old one or the new one.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "harness/failure.hpp"
#include "reports/json.hpp"
#include "reports/waterfall.hpp"

namespace parity::reports {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void complain(const char* verb, const fs::path& file) {
  throw UsageError(fmt::format("cannot {} {}: {}", verb, file.string(), std::strerror(errno)));
}

void write_all(int file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) complain("write", path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void add_line(RunFolder& folder, RecordLine&& line, std::map<std::string, std::size_t>& place) {
  if (auto* record = std::get_if<CaseRecord>(&line)) {
    const auto [at, is_new] = place.emplace(record_key(*record), folder.cases.size());
    if (is_new)
      folder.cases.push_back(std::move(*record));
    else
      folder.cases[at->second] = std::move(*record);
  } else if (auto* mutant = std::get_if<MutantRecord>(&line)) {
    folder.mutants.push_back(std::move(*mutant));
  } else if (auto* quantised = std::get_if<Quantised>(&line)) {
    folder.quantised.push_back(std::move(*quantised));
  } else if (auto* mutation = std::get_if<MutationSummary>(&line)) {
    folder.mutation = *mutation;
  } else if (auto* complaint = std::get_if<Complaint>(&line)) {
    folder.complaints.push_back(std::move(*complaint));
  }
}

}  // namespace

std::string slurp(const fs::path& file) {
  if (fs::is_directory(file)) throw UsageError(fmt::format("{} is a folder", file.string()));
  std::ifstream in(file, std::ios::binary);
  if (!in) complain("read", file);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

RunFolder read_run(const fs::path& dir) {
  const fs::path file = dir / "records.jsonl";
  if (!fs::exists(file))
    throw UsageError(fmt::format("{} is no run: it holds no records.jsonl", dir.string()));
  const std::string text = slurp(file);
  RunFolder folder;
  std::map<std::string, std::size_t> place;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = text.find('\n', at);
    const bool torn = end == std::string::npos;
    const std::string_view line = std::string_view(text).substr(at, torn ? end : end - at);
    at = torn ? text.size() : end + 1;
    try {
      RecordLine parsed = parse_line(line);
      if (number == 0) {
        auto* run = std::get_if<RunRecord>(&parsed);
        if (!run) throw UsageError("the first line of a run describes the run (\"kind\":\"run\")");
        folder.run = std::move(*run);
      } else {
        add_line(folder, std::move(parsed), place);
      }
    } catch (const UsageError& error) {
      if (torn && number > 0) break;  // the record that was being written when the run died
      throw UsageError(fmt::format("{}:{}: {}", file.string(), number + 1, error.what()));
    }
  }
  if (number == 0) throw UsageError(fmt::format("{} is empty", file.string()));

  Tally tally;
  for (const CaseRecord& record : folder.cases) tally.add(record);
  folder.exit = tally.exit();
  for (const Complaint& complaint : folder.complaints)
    folder.exit = worse_exit(folder.exit, complaint.exit);
  if (const fs::path summary = dir / "summary.json"; fs::exists(summary)) {
    try {
      const SummaryDocument document = parse_summary(slurp(summary));
      folder.exit = document.exit;
      folder.wall_ms = document.wall_ms;
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", summary.string(), error.what()));
    }
  }
  return folder;
}

void write_atomically(const fs::path& file, std::string_view text) {
  const fs::path temporary = file.string() + fmt::format(".tmp{}", ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) complain("write", temporary);
  try {
    write_all(fd, text, temporary);
    if (::fsync(fd) != 0) complain("write", temporary);
  } catch (...) {
    ::close(fd);
    ::unlink(temporary.c_str());
    throw;
  }
  ::close(fd);
  if (::rename(temporary.c_str(), file.c_str()) != 0) {
    const int why = errno;
    ::unlink(temporary.c_str());
    errno = why;
    complain("write", file);
  }
}

RecordWriter::RecordWriter(const fs::path& dir, const RunRecord& run, bool resume)
    : path_(dir / "records.jsonl") {
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) throw UsageError(fmt::format("cannot create {}: {}", dir.string(), failed.message()));
  std::size_t keep = 0;  // bytes: whole lines that a run before this one left
  if (resume && fs::exists(path_)) keep = slurp(path_).rfind('\n') + 1;
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) complain("write", path_);
  if (::ftruncate(file_, static_cast<off_t>(keep)) != 0 || ::lseek(file_, 0, SEEK_END) < 0)
    complain("write", path_);
  if (keep == 0) append(to_json_line(run));
}

RecordWriter::~RecordWriter() {
  if (file_ >= 0) ::close(file_);
}

// One write call a line: a reader that follows the file sees whole records.
void RecordWriter::append(std::string_view line) {
  write_all(file_, std::string(line) + "\n", path_);
  if (::fdatasync(file_) != 0 && errno != EINVAL)
    complain("write", path_);  // EINVAL: a pipe or /dev/null
}

void RecordWriter::write(const CaseRecord& record) { append(to_json_line(record)); }
void RecordWriter::write(const MutantRecord& record) { append(to_json_line(record)); }
void RecordWriter::write(const MutationSummary& mutation) { append(to_json_line(mutation)); }
void RecordWriter::write(const Complaint& complaint) { append(to_json_line(complaint)); }
void RecordWriter::write(const Quantised& q) { append(to_json_line(q)); }
void RecordWriter::write(const Waterfall& layers) { append(to_json_line(layers)); }

void Pictures::thin(CaseRecord& record) {
  double used = 0;
  for (const TensorRecord& tensor : record.tensors) used = std::max(used, tensor.bound_used);
  if (record.status != "pass" || std::isnan(used)) return;
  const std::string group = fmt::format("{}|{}|{}|{}|{}", record.op, record.kernel, record.dtype,
                                        record.direction, record.check);
  const auto [widest, is_first] = widest_.emplace(group, used);
  if (is_first) return;
  if (used > widest->second) return void(widest->second = used);
  for (TensorRecord& tensor : record.tensors) {
    tensor.profiles.clear();
    tensor.heatmaps.clear();
    tensor.ulp_histogram.clear();
    tensor.ulp_histogram_base.clear();
    tensor.scatter.reset();
    tensor.worst_points.clear();
  }
}

void write_reports(const RunFolder& folder, const fs::path& dir) {
  write_atomically(dir / "report.html", html(folder));
  write_atomically(dir / "junit.xml", junit(folder));
  write_atomically(dir / "summary.md", markdown(folder));
  write_atomically(dir / "report.sarif", sarif(folder));
  write_atomically(dir / "annotations.txt", annotations(folder));
  write_atomically(dir / "summary.json", summary_json(folder, dir));
}

}  // namespace parity::reports
