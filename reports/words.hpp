// Numbers and verdicts as words, the same in the terminal, the page, Markdown and JUnit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record.hpp"
#include "reports/reports.hpp"

namespace parity::reports {

std::string number(double value);   // three significant digits: "0.031", "1.2e-7", "nan"
std::string precise(double value);  // seven, for the values of a point
std::string times(
    double factor);  // "1.004x": four digits, so that what is just over a limit does not read as 1
std::string count_of(std::int64_t n, std::string_view noun);  // "1 case", "12 cases"
std::string duration(double ms);                              // "840 ms", "12.3 s", "2 min 5 s"
std::string bytes_of(std::int64_t n);                         // "4.0 MiB"
std::string shape_of(const TensorRecord&);                    // "1x64x2x128"
std::string headroom(
    double bound_used);  // "3.2x": how much larger every error could be; "exact", "none"
std::string short_commit(std::string_view commit);  // twelve digits, "-dirty" kept

// For XML and HTML: the five characters escaped; bytes that are no UTF-8 and code points that XML
// forbids replaced.
std::string escaped(std::string_view text);
// Control characters of a hostile id are commands to a terminal: they become '?'.
std::string visible(std::string_view text);

Counts counts_of(const std::vector<CaseRecord>&);
std::string exit_meaning(const RunFolder&);
bool unexpected(const CaseRecord&);  // deserves a reader's attention: neither pass nor unsupported,
                                     // nor an expected fail

// The tensor that decided: the first violated view by severity, then the largest share of its
// bound. Null if none.
const TensorRecord* telling_tensor(const CaseRecord&);
// Its most severe violated view; null where every view holds.
const ViewResult* telling_view(const TensorRecord&);
double max_bound_used(const CaseRecord&);  // NaN stays NaN; 0 without tensors

// How far the telling view is beyond its limit: value over limit; +inf where a limit of 0 is
// passed, NaN stays NaN.
double excess(const ViewResult&);
// Where it was violated, in letters: of the worst point for what is judged by element, of the slice
// otherwise.
std::string place_of(const TensorRecord&, const ViewResult&);

// "bound 3.41 > 1 ..." of one tensor, in a sentence; and where: coordinates and pattern.
std::string what_failed(const TensorRecord&);
std::string where_failed(const TensorRecord&);

// Reasons of the records with this status, the most frequent first.
struct Reason {
  std::string text = {};
  std::int64_t cases = 0;
};
std::vector<Reason> reasons_of(const std::vector<CaseRecord>&, Status);

}  // namespace parity::reports
