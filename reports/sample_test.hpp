// A run as a kernel developer may have it, made up for the tests of the reports: nothing in it was
// measured.
#pragma once

#include <string>
#include <string_view>

#include "reports/reports.hpp"

namespace parity::reports::test {

TensorRecord sample_tensor(std::string name, std::string role, std::string dtype, double used,
                           bool pictures, std::uint64_t seed);
// Passes if `used` <= 1.
CaseRecord sample_case(std::string op, std::string kernel, std::string dtype, std::string sizes,
                       std::string fill, double used, bool pictures, std::uint64_t seed);
// `passing` sound cases over three kernels; with `failing` also one of every other outcome, and a
// kill table.
RunFolder sample_run(int passing, bool failing);

// What is wrong with the markup: an unbalanced or misnested tag, a bare '<' or '&'; "" where
// nothing is. Void elements and the raw text of <style> and <script> are known.
std::string markup_error(std::string_view text);
// The page as a browser has it once every group has been opened.
std::string unpacked(std::string_view page);
std::size_t occurrences(std::string_view text, std::string_view word);

}  // namespace parity::reports::test
