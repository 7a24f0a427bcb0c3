// The steps that several series share, and what is odd about the steps of one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "golden/io/run_log.hpp"

namespace parity::io {

std::int64_t count_common_steps(std::span<const Series* const>);
// In ascending order; a step that a restart logged again is taken as it was logged last.
void walk_common_steps(std::span<const Series* const>,
                       const std::function<void(std::int64_t step, std::span<const double>)>&);

struct StepCensus {
  std::int64_t first = 0, last = 0, steps = 0;  // that count
  std::int64_t interval = 1;                    // the usual one
  std::int64_t missing = 0;                     // of that interval
  std::int64_t first_missing = 0;
  std::int64_t restarts = 0;
  std::int64_t first_restart = 0;                  // the step to which the log went back
  std::int64_t repeated = 0, repeated_unlike = 0;  // steps logged again; with another value
  std::int64_t first_unlike = 0;
};
StepCensus census(const Series&);

}  // namespace parity::io
