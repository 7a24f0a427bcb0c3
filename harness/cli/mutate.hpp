// The mutation run, for `parity mutate` and `parity gate`.
#pragma once

#include "harness/cli/arguments.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/suite.hpp"

namespace parity::cli {

MutationReport mutation_report(const Arguments&, Lane, ProgressLine&);

}  // namespace parity::cli
