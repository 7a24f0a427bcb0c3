// JSONL: one object a line. Numbers by their keys, those of nested objects joined by '/'; NaN and
// Infinity as Python writes them, or as strings; null is a value that was not logged.
#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

#include "golden/io/log_formats.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr int kMostDepth = 16;
constexpr std::size_t kMostColumns = 100'000;

struct Field {
  std::string key = {};
  std::string_view text = {};  // of a number, or of a string that may be one
};

// The numbers of one line.
class Scanner {
 public:
  Scanner(std::string_view text, const Lines& lines) : text_(text), lines_(lines) {}

  void object(std::vector<Field>& fields) {
    object(fields, "", 0);
    space();
    if (at_ != text_.size()) refuse("goes on after the object");
  }

 private:
  std::string_view text_;
  const Lines& lines_;
  std::size_t at_ = 0;

  [[noreturn]] void refuse(std::string_view what) const {
    lines_.refuse(fmt::format("is no JSON object: {} at byte {}", what, at_));
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void expect(char c) {
    if (peek() != c) refuse(fmt::format("'{}' is missing", c));
    ++at_;
  }
  std::string_view string() {
    expect('"');
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2U : 1U;
    if (at_ >= text_.size()) refuse("a string does not end");
    return text_.substr(from, at_++ - from);
  }
  std::string_view word() {
    const std::size_t from = at_;
    while (at_ < text_.size() &&
           std::string_view(",]} \t").find(text_[at_]) == std::string_view::npos)
      ++at_;
    if (at_ == from) refuse("a value is missing");
    return text_.substr(from, at_ - from);
  }
  void value(std::vector<Field>& fields, const std::string& key, int depth) {
    if (depth > kMostDepth) refuse("too many levels");
    const char c = peek();
    if (c == '{')
      object(fields, key + "/", depth + 1);
    else if (c == '[')
      array(depth + 1);
    else
      fields.push_back({key, c == '"' ? string() : word()});
  }
  void object(std::vector<Field>& fields, const std::string& prefix, int depth) {
    expect('{');
    if (peek() == '}') return void(++at_);
    for (;;) {
      const std::string key = prefix + std::string(string());
      expect(':');
      value(fields, key, depth);
      if (peek() == '}') return void(++at_);
      expect(',');
    }
  }
  void array(int depth) {  // lists are no scalars
    expect('[');
    std::vector<Field> ignored;
    if (peek() == ']') return void(++at_);
    for (;;) {
      value(ignored, "", depth);
      if (peek() == ']') return void(++at_);
      expect(',');
    }
  }
};

}  // namespace

void read_jsonl(const Bytes& file, const LogOptions& options, RunLog& log) {
  log.format = "JSONL";
  Lines lines(file);
  std::string_view line;
  std::vector<Field> fields;
  std::unordered_map<std::string, std::size_t> series_of;
  std::int64_t without = 0;
  while (lines.next(line)) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    fields.clear();
    try {
      Scanner(line, lines).object(fields);
    } catch (const UsageError&) {
      if (lines.ended()) throw;
      log.remarks.push_back(
          fmt::format("line {}, the last, is cut short: left out", lines.number()));
      break;
    }
    if (log.step_name.empty()) {
      std::vector<std::string> names;
      for (const Field& field : fields) names.push_back(field.key);
      if (const std::size_t at = step_column(names, options); at != std::string::npos)
        log.step_name = names[at];
    }
    const auto step_field = std::ranges::find(fields, log.step_name, &Field::key);
    if (log.step_name.empty() || step_field == fields.end()) {
      ++without;  // a line about something else: the configuration, an evaluation
      continue;
    }
    std::int64_t step = 0;
    if (!parse_step(step_field->text, step))
      lines.refuse(fmt::format("has '{}' as {}, which is no step", step_field->text.substr(0, 40),
                               log.step_name));
    for (const Field& field : fields) {
      if (field.key == log.step_name || field.text == "null") continue;
      auto it = series_of.find(field.key);
      if (it == series_of.end()) {
        if (series_of.size() == kMostColumns) lines.refuse("brings one key too many");
        const bool wanted = options.wanted(field.key);
        it = series_of.emplace(field.key, wanted ? log.series.size() : std::string::npos).first;
        if (wanted)
          log.series.emplace_back(field.key);
        else
          log.left_out.push_back(field.key);
      }
      if (it->second == std::string::npos) continue;
      Number number;
      if (!parse_number(field.text, number))
        lines.refuse(
            fmt::format("has '{}' as {}, which is no number", field.text.substr(0, 40), field.key));
      log.series[it->second].append(step, number.value);
      log.series[it->second].seen(number.printed);
    }
  }
  if (log.step_name.empty())
    throw UsageError(fmt::format("{}: no line has {}", file.name(),
                                 options.step.empty()
                                     ? "a step (step, iteration, global_step, ...): --step NAME "
                                       "says which key it is"
                                     : "the key '" + options.step + "'"));
  if (without > 0)
    log.remarks.push_back(fmt::format("{} lines without {}: left out", without, log.step_name));
}

}  // namespace parity::io
