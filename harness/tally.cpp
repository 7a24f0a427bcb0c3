// Counts and exit codes (tolerance.md §7): of several, 2 before 5 before 1 before 3 before 4 before
// 0.
#include "harness/suite.hpp"

namespace parity {

void count(Counts& counts, const CaseRecord& record) {
  switch (parse_status(record.status)) {
    case Status::Pass:
      ++counts.pass;
      break;
    case Status::Fail:
      ++(record.expected == "fail" ? counts.expected_fail : counts.fail);
      break;
    case Status::Unproven:
      ++counts.unproven;
      break;
    case Status::Unsupported:
      ++counts.unsupported;
      break;
    case Status::Error:
      ++counts.error;
      break;
    case Status::Waived:
      ++counts.waived;
      break;
  }
}

int exit_of(const Counts& counts) {
  if (counts.pass + counts.fail + counts.unproven + counts.error + counts.waived +
          counts.expected_fail ==
      0)
    return 4;
  int exit = 0;
  if (counts.fail > 0) exit = worse_exit(exit, 1);
  if (counts.error > 0) exit = worse_exit(exit, 3);
  if (counts.unproven > 0) exit = worse_exit(exit, 4);
  return exit;
}

void Tally::add(const CaseRecord& record) {
  count(counts_, record);
  if (record.status == name(Status::Error) && record.error_kind == "harness") ++harness_errors_;
  // A label may be damaged in one file and sound in another: op/<file
  // stem>:<case>/...@recording.<label>
  if (record.expected == "fail") {
    const std::size_t slash = record.id.find('/'), colon = record.id.find(':');
    const std::string stem = slash < colon && colon != std::string::npos
                                 ? record.id.substr(slash + 1, colon - slash - 1)
                                 : "";
    damaged_[stem + "@" + record.kernel] |= record.status == name(Status::Fail);
  }
}

std::vector<std::string> Tally::undetected() const {
  std::vector<std::string> labels;
  for (const auto& [label, failed] : damaged_)
    if (!failed) labels.push_back(label);
  return labels;
}

int Tally::exit() const {
  int exit = exit_of(counts_);
  if (harness_errors_ > 0) exit = worse_exit(exit, 2);
  if (!undetected().empty()) exit = worse_exit(exit, 4);
  return exit;
}

}  // namespace parity
