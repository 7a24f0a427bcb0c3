// From logs to a judgement: which columns are judged, on which steps, and what is odd about them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/drift.hpp"

namespace parity::cli {

struct DriftQuestion {
  std::string candidate = {};
  std::vector<std::string> references = {};
  double alpha = 0.05;
  std::string step = {}, loss = {}, grad_norm = {};  // names of columns; empty: the usual spellings
  std::vector<std::string> more = {};                // globs: further columns that are judged
};

reports::DriftReport judge_logs(const DriftQuestion&);

// Files of a folder whose names match, sorted.
std::vector<std::string> files_of(const std::filesystem::path& folder, std::string_view glob);

}  // namespace parity::cli
