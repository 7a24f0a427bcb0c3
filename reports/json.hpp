// One line of records.jsonl, read back. The writing side is in reports.hpp.
#pragma once

#include <string_view>
#include <variant>

#include "reports/quantised.hpp"
#include "reports/reports.hpp"

namespace parity::reports {

// monostate: a kind of line that this version does not know, left for later ones.
using RecordLine = std::variant<std::monostate, RunRecord, CaseRecord, MutantRecord,
                                MutationSummary, Complaint, Quantised>;
RecordLine parse_line(std::string_view json);  // UsageError that says what cannot be read

struct SummaryDocument {
  int exit = 4;
  double wall_ms = 0;
};
SummaryDocument parse_summary(std::string_view json);

}  // namespace parity::reports
