// What a small suite says, for tests.
#pragma once

#include <vector>

#include "harness/suite.hpp"

namespace parity::test {

inline SuiteOptions quick() {
  SuiteOptions options;
  options.timeout_s = 20;
  options.memory_bytes = 1LL << 29;
  options.details = false;
  return options;
}

struct Outcome {
  std::vector<CaseRecord> records = {};
  SuiteResult result = {};
};
inline Outcome run(const std::vector<Subject>& subjects, const SuiteOptions& options = quick()) {
  Outcome outcome;
  outcome.result =
      run_suite(subjects, options, [&](const CaseRecord& r) { outcome.records.push_back(r); });
  return outcome;
}

}  // namespace parity::test
