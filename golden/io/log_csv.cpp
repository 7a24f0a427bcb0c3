// CSV: a line of names, then lines of values; commas, semicolons or tabs, whichever the first line
// has; quotes around a field and doubled inside it. An empty field is a value that was not logged.
#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "golden/io/log_formats.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::size_t kMostColumns = 100'000;

// The fields of a line; `storage` holds those that had quotes.
void split(std::string_view line, char separator, std::vector<std::string_view>& fields,
           std::vector<std::string>& storage) {
  fields.clear();
  storage.clear();
  storage.reserve(static_cast<std::size_t>(std::ranges::count(line, '"')) / 2 +
                  1);  // views into it stay valid
  std::size_t at = 0;
  for (;;) {
    while (at < line.size() && line[at] == ' ') ++at;
    if (at < line.size() && line[at] == '"') {
      std::string& text = storage.emplace_back();
      for (++at; at < line.size(); ++at) {
        if (line[at] != '"')
          text += line[at];
        else if (at + 1 < line.size() && line[at + 1] == '"')
          text += line[at++];
        else
          break;
      }
      at = std::min(line.find(separator, at), line.size());
      fields.push_back(text);
    } else {
      const std::size_t end = std::min(line.find(separator, at), line.size());
      std::string_view text = line.substr(at, end - at);
      while (text.ends_with(' ')) text.remove_suffix(1);
      fields.push_back(text);
      at = end;
    }
    if (at >= line.size()) return;
    ++at;
  }
}

}  // namespace

void read_csv(const Bytes& file, const LogOptions& options, RunLog& log) {
  log.format = "CSV";
  Lines lines(file);
  std::string_view line;
  while (lines.next(line) && (line.empty() || line.starts_with('#'))) {
  }
  if (line.find('\0') != std::string_view::npos) lines.refuse("has a NUL: this is no text");
  char separator = ',';
  for (const char c : {',', ';', '\t'})
    if (std::ranges::count(line, c) > std::ranges::count(line, separator)) separator = c;
  std::vector<std::string_view> fields;
  std::vector<std::string> storage;
  split(line, separator, fields, storage);
  const std::vector<std::string> names(fields.begin(), fields.end());
  if (names.size() > kMostColumns) lines.refuse("names too many columns");
  const std::size_t step_at = step_column(names, options);
  if (step_at == std::string::npos)
    lines.refuse(options.step.empty()
                     ? "names no column of steps (step, iteration, global_step, ...): --step "
                       "NAME says which"
                     : fmt::format("names no column '{}'", options.step));
  log.step_name = names[step_at];
  std::vector<std::size_t> series_of(names.size(), std::string::npos);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == step_at) continue;
    if (std::ranges::count(names, names[i]) > 1 && options.wanted(names[i]))
      lines.refuse(fmt::format("names the column '{}' twice", names[i]));
    if (options.wanted(names[i])) {
      series_of[i] = log.series.size();
      log.series.emplace_back(names[i]);
    } else {
      log.left_out.push_back(names[i]);
    }
  }
  while (lines.next(line)) {
    if (line.empty() || line.starts_with('#')) continue;
    split(line, separator, fields, storage);
    if (fields.size() != names.size() || (!lines.ended() && fields.back().empty())) {
      if (!lines.ended()) {
        log.remarks.push_back(
            fmt::format("line {}, the last, is cut short: left out", lines.number()));
        break;
      }
      lines.refuse(
          fmt::format("has {} fields, the first line names {}", fields.size(), names.size()));
    }
    if (std::ranges::equal(fields, names)) continue;  // a restart wrote the names again
    std::int64_t step = 0;
    if (!parse_step(fields[step_at], step))
      lines.refuse(fmt::format("has '{}' as {}, which is no step", fields[step_at].substr(0, 40),
                               log.step_name));
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (series_of[i] == std::string::npos || fields[i].empty()) continue;
      Number number;
      if (!parse_number(fields[i], number))
        lines.refuse(
            fmt::format("has '{}' as {}, which is no number", fields[i].substr(0, 40), names[i]));
      Series& series = log.series[series_of[i]];
      series.append(step, number.value);
      series.seen(number.printed);
    }
  }
}

}  // namespace parity::io
