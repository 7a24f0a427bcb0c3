// What is on the other side of stdout and stderr, and the progress that goes to the latter.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "harness/cli/arguments.hpp"
#include "harness/suite.hpp"
#include "reports/reports.hpp"

namespace parity::cli {

// Colour on a terminal only, and never with NO_COLOR (no-color.org).
reports::ConsoleStyle style_of(const Arguments&);

std::string shell_word(std::string_view word);  // as a shell takes it back
void print(const std::string& text);            // stdout
void complain(const std::string& text);         // stderr, with "parity: " before it

// A bar on a terminal, a line every ten seconds elsewhere, nothing with --quiet; with -v every id
// before it runs.
class ProgressLine {
 public:
  explicit ProgressLine(const Arguments&);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void phase(const std::string& what);  // "goldens", "mutants": stands before the counts
  void show(const Progress&);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_ = false, verbose_ = false, terminal_ = false, drawn_ = false;
  std::size_t width_ = 80;
  std::string phase_ = {}, last_ = {};
  Clock::time_point next_ = {};
};

}  // namespace parity::cli
