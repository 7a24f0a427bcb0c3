#include "harness/cli/values.hpp"

#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <limits>

namespace parity::cli {

std::string is_seed(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const std::string most = std::to_string(std::numeric_limits<std::uint64_t>::max());
  if (digits && (text.size() < most.size() || (text.size() == most.size() && text <= most)))
    return "";
  return fmt::format("'{}' is no whole number from 0 to 2^64-1", text);
}

std::string is_seconds(const std::string& text) {
  constexpr double kLongest = 1e6;  // seconds
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value > 0 && value <= kLongest)
    return "";
  return fmt::format("'{}' is no number of seconds above 0 and up to {}", text, kLongest);
}

}  // namespace parity::cli
