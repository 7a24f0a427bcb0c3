// Runs against each other.
#pragma once

#include <filesystem>

#include "harness/cli/arguments.hpp"

namespace parity::cli {

bool is_run(const std::filesystem::path&);  // a folder with records.jsonl
int diff_runs(const Arguments&);            // of `parity diff A B`, both of them runs

}  // namespace parity::cli
