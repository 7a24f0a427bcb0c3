// What `parity drift` found, and its texts: terminal, JSON, page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/drift/growth.hpp"
#include "harness/drift/judge.hpp"
#include "reports/reports.hpp"

namespace parity::reports {

struct DriftReport {
  std::string candidate = {};
  std::vector<std::string> references = {};
  drift::Judgement judgement = {};
  std::vector<std::vector<drift::Point>> points = {};     // by column of the judgement
  std::int64_t first_step = 0, last_step = 0, steps = 0;  // of the column with most
  std::vector<std::string> remarks = {};                  // what is odd about the logs
  std::vector<std::string> not_judged = {};  // columns, with the reason where there is one

  // Of the loss, or the first column where there is none.
  std::string about = {};
  std::vector<std::int64_t> difference_steps = {};  // to which the indices of `growth` refer
  drift::Growth growth = {};
  drift::Interval shift = {}, trend = {};  // of log(candidate / median) over the last half
};

int exit_of(const DriftReport&);
std::string console_drift(const DriftReport&, const ConsoleStyle&);
std::string drift_json(const DriftReport&);

}  // namespace parity::reports
