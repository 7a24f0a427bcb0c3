// parity explain: what a verdict and its causes read like, and the table over all mutants.
#pragma once

#include <string>

#include "harness/cli/arguments.hpp"
#include "harness/hypotheses.hpp"

namespace parity::cli {

std::string_view word(Cause);  // "explained", "closest", "unexplained", "noise"
// "F-24: eps outside the root (l2norm.base)"
std::string named(const Hypothesis&);
// "0.8 noise units away, 97 % of elements equal bit for bit, rel L2 3e-8"
std::string measured(const Distance&);

// Each mutant that the lane kills, explained without the code that it was made by: 0 where at least
// four of five are named and at most one in fifty wrongly, else 4.
int explain_mutants(const Arguments&);

}  // namespace parity::cli
