// What CSV and JSONL share: lines, numbers as printed, the column of steps.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "golden/io/log_formats.hpp"
#include "harness/drift/columns.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes; also the longest line

bool equal(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
}

bool named_number(std::string_view text, double& value) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (equal(text, "nan"))
    value = std::numeric_limits<double>::quiet_NaN();
  else if (equal(text, "inf") || equal(text, "infinity"))
    value = std::numeric_limits<double>::infinity();
  else
    return false;
  if (negative) value = -value;
  return true;
}

// Digits as they stand, the exponent moved into the place of the point.
Resolution printed(std::string_view text) {
  Resolution r{};
  bool point = false, leading = true;
  std::size_t i = 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') point = true;
    if (text[i] < '0' || text[i] > '9') continue;
    if (text[i] != '0') leading = false;
    r.digits += leading ? 0 : 1;
    r.decimals += point ? 1 : 0;
  }
  int exponent = 0;
  if (i + 1 < text.size()) {
    const std::size_t from = i + (text[i + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + from, text.data() + text.size(), exponent);
  }
  r.decimals -= std::clamp(exponent, -400, 400);
  return r;
}

}  // namespace

bool Lines::next(std::string_view& line) {
  for (;;) {
    if (const std::size_t end = buffer_.find('\n', at_); end != std::string::npos) {
      line = std::string_view(buffer_).substr(at_, end - at_);
      at_ = end + 1;
      break;
    }
    const std::int64_t left = file_.size() - offset_;
    if (left == 0) {
      if (at_ == buffer_.size()) return false;
      line = std::string_view(buffer_).substr(at_);
      at_ = buffer_.size();
      ended_ = false;
      break;
    }
    buffer_.erase(0, at_);
    at_ = 0;
    if (buffer_.size() > kPiece) {
      ++number_;
      refuse("is longer than a MiB");
    }
    buffer_ += file_.text(offset_, std::min<std::int64_t>(left, kPiece));
    offset_ += std::min<std::int64_t>(left, kPiece);
  }
  ++number_;
  if (number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

void Lines::refuse(std::string_view what) const {
  throw UsageError(fmt::format("{}: line {} {}", file_.name(), number_, what));
}

bool parse_number(std::string_view text, Number& number) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error == std::errc::result_out_of_range && end == text.data() + text.size()) {
    // Too large or too small for a double: the former is no number, the latter is none that counts.
    const std::size_t e = text.find_first_of("eE");
    number.value = e != std::string_view::npos && text.substr(e + 1).starts_with('-')
                       ? 0
                       : std::numeric_limits<double>::infinity();
  } else if (error != std::errc{} || end != text.data() + text.size()) {
    return named_number(text, number.value);
  }
  if (std::isfinite(number.value)) number.printed = printed(text);
  return true;
}

bool whole_step(double value, std::int64_t& step) {
  if (!(std::abs(value) <= 0x1p53) || value != std::floor(value)) return false;
  step = static_cast<std::int64_t>(value);
  return true;
}

bool parse_step(std::string_view text, std::int64_t& step) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error == std::errc{} && end == text.data() + text.size() && std::abs(step) <= (1LL << 53))
    return true;
  Number number;
  return parse_number(text, number) && whole_step(number.value, step);
}

std::size_t step_column(std::span<const std::string> names, const LogOptions& options) {
  std::size_t best = std::string::npos;
  int rank = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!options.step.empty()) {
      if (names[i] == options.step) return i;
      continue;
    }
    const drift::Meaning meaning = drift::meaning_of(names[i]);
    if (meaning.role == drift::Role::Step && meaning.rank < rank) {
      best = i;
      rank = meaning.rank;
    }
  }
  return best;
}

}  // namespace parity::io
