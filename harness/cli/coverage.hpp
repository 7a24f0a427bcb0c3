// What is judged and what is not: every op by direction, dtype and kernel, with the cases, exact
// probes and mutants that judge it, and every hole with its reason.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/catalogue.hpp"
#include "harness/cli/check.hpp"

namespace parity::cli {

struct CoverageRow {
  std::string op = {}, direction = {}, dtype = {}, kernel = {};  // no kernel: none takes it
  std::int64_t cases = 0, exact_probes = 0, mutants = 0;         // mutants of kernel and base
  std::vector<std::string> holes = {};                           // that nothing explains
  std::vector<std::string> explained = {};                       // the others, with their reasons
};
struct Coverage {
  std::vector<CoverageRow> rows = {};
  std::vector<ExplanationInfo> idle = {};  // explanations of no hole
};
// `why_no_torch`: the reason why kernels that need LibTorch are not in this catalogue; "" = they
// are.
Coverage coverage(const Catalogue&, const std::string& why_no_torch);
Coverage coverage();  // of this build
std::string coverage_text(const std::vector<CoverageRow>&);
std::string coverage_json(const std::vector<CoverageRow>&);
// A hole without a reason, a reason without a hole.
std::vector<Finding> findings_of(const Coverage&);

}  // namespace parity::cli
