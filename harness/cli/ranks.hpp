// --ranks and --comm of `run`: which of the cases with ranks run, and what their ranks are.
#pragma once

#include <vector>

#include "harness/cli/arguments.hpp"
#include "harness/source.hpp"

namespace parity::cli {

// With --comm mpi this process joins the launch: one case at a time, in this process, on the
// kernels of MPI; ranks other than 0 are quiet and write to a folder of their own.
Arguments with_ranks(const Arguments&);
// Keeps the cases of the numbers of ranks that --ranks names.
void keep_ranks(std::vector<Subject>&);

}  // namespace parity::cli
