// Small text helpers shared by parsers and messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parity {

std::vector<std::string> split(std::string_view text,
                               char separator);  // "a,,b" -> "a", "", "b"; "" -> none
// The candidate with the smallest edit distance, if it is near enough to be a slip of the pen; else
// "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);
// Whole text as a number, or Failure naming `what`.
std::int64_t to_integer(std::string_view text, std::string_view what);
double to_real(std::string_view text, std::string_view what);
// Shortest text that reads back as the same double; "nan", "inf", "-inf".
std::string shortest(double value);

}  // namespace parity
