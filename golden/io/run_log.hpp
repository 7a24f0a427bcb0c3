// Logs of training runs: scalars by step, from CSV, JSONL and TensorBoard event files.
//
// A series keeps every value that was logged, in the order of the log. A step that goes back is a
// restart (from a checkpoint, say): what was logged from there on counts, what it replaced is kept
// to be compared. Values are 8 bytes each, in memory up to a limit that all logs share and in an
// unlinked temporary file beyond it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parity::io {

// Steps first, first + stride, ... (count of them), whose values stand at `at` and after.
struct Segment {
  std::int64_t first = 0, stride = 1, count = 0, at = 0;
  std::int64_t last() const { return first + stride * (count - 1); }
};

// How finely numbers were printed: a value is known to one unit of its last place only.
struct Resolution {
  int decimals = 0;      // the most digits behind the point
  int digits = 0;        // the most significant digits
  bool binary32 = true;  // no finer than an fp32 either way
  double unit(double value) const;
};

class Series {
 public:
  explicit Series(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  void append(std::int64_t step, double value);
  void seen(const Resolution&);  // of one value

  std::int64_t size() const { return size_; }  // with those that a restart replaced
  const Resolution& resolution() const { return resolution_; }
  std::int64_t not_finite() const { return not_finite_; }
  std::int64_t first_not_finite() const { return first_not_finite_; }  // its step
  std::uint64_t digest() const { return digest_; }     // of all steps and values, in order
  std::int64_t restarts() const { return restarts_; }  // times that the step did not go up
  std::int64_t first_restart() const { return first_restart_; }
  // Steps that count, ascending and disjoint.
  std::vector<Segment> kept() const;
  // Those that a later part of the log replaced.
  std::vector<Segment> replaced() const;
  void read(std::int64_t at, std::span<double> out) const;

 private:
  void spill();

  std::string name_;
  std::vector<Segment> segments_ = {};
  std::vector<std::int64_t> pieces_ = {};  // where they stand in the file, each of equal length
  std::vector<double> tail_ = {};          // from spilled_ on
  std::int64_t size_ = 0, spilled_ = 0, not_finite_ = 0, first_not_finite_ = 0;
  std::int64_t restarts_ = 0, first_restart_ = 0;
  std::uint64_t digest_ = 0xcbf29ce484222325;
  Resolution resolution_ = {};
};

struct RunLog {
  std::string path = {};
  std::string format = {};     // "CSV", "JSONL", "TensorBoard"
  std::string step_name = {};  // the column of steps
  std::vector<Series> series = {};
  std::vector<std::string> left_out = {};  // columns that were not asked for, or hold no numbers
  std::vector<std::string> remarks = {};   // about the file itself: a line cut short
  const Series* find(std::string_view name) const;
};

struct LogOptions {
  std::string step = {};  // the column of steps; empty: the usual spellings
  std::function<bool(std::string_view)> wanted = {};  // columns to keep
};

// By content, not by name; a folder holds TensorBoard event files. UsageError, in one line with the
// place: unreadable, no steps, a line that does not fit.
RunLog read_log(const std::filesystem::path&, const LogOptions&);

// Values that wait in memory, of all series together, before they go to a file; bytes.
void set_log_memory(std::int64_t bytes);

}  // namespace parity::io
