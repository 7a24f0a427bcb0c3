// What is judged and what is not: every op by direction, dtype and kernel, with the cases, exact
// probes and mutants that judge it, and every hole with its reason.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/catalogue.hpp"

namespace parity::cli {

struct CoverageRow {
  std::string op = {}, direction = {}, dtype = {}, kernel = {};  // no kernel: none takes it
  std::int64_t cases = 0, exact_probes = 0, mutants = 0;         // mutants of kernel and base
  std::vector<std::string> holes = {};
};
std::vector<CoverageRow> coverage(const Catalogue&);
std::string coverage_text(const std::vector<CoverageRow>&);
std::string coverage_json(const std::vector<CoverageRow>&);

}  // namespace parity::cli
