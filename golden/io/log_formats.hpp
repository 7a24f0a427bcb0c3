// The formats behind run_log.hpp. Each adds to the log what it finds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "golden/io/bytes.hpp"
#include "golden/io/run_log.hpp"

namespace parity::io {

void read_csv(const Bytes&, const LogOptions&, RunLog&);
void read_jsonl(const Bytes&, const LogOptions&, RunLog&);
void read_events(const Bytes&, const LogOptions&, RunLog&);
void read_event_folder(const std::filesystem::path&, const LogOptions&, RunLog&);
bool is_event_file(std::span<const std::byte> head);  // its first 16 bytes

// Lines of a text file, read in pieces. A line of more than a MiB is refused.
class Lines {
 public:
  explicit Lines(const Bytes& file) : file_(file) {}
  bool next(std::string_view& line);                      // without its end
  std::int64_t number() const { return number_; }         // of the last line, from 1
  bool ended() const { return ended_; }                   // the last line had an end
  [[noreturn]] void refuse(std::string_view what) const;  // UsageError with file and line

 private:
  const Bytes& file_;
  std::string buffer_ = {};
  std::size_t at_ = 0;
  std::int64_t offset_ = 0, number_ = 0;
  bool ended_ = true;
};

// A number as logs write it: also nan, inf, NaN, Infinity. False if the text is none.
struct Number {
  double value = 0;
  Resolution printed = {};
};
bool parse_number(std::string_view text, Number&);
// A step: a whole number, perhaps written as 12.0 or 1e3.
bool parse_step(std::string_view text, std::int64_t&);
bool whole_step(double value, std::int64_t&);

// The column of steps among these names: the one asked for, else the usual spellings.
std::size_t step_column(std::span<const std::string> names, const LogOptions&);  // npos: none

}  // namespace parity::io
