// From ids, globs and filters to the subjects that a verb works on.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/arguments.hpp"
#include "harness/source.hpp"
#include "harness/suite.hpp"

namespace parity::cli {

Lane lane_of(const Arguments&, Lane otherwise);
// By how much seeds are shifted: --seed, else the day in the sweep lane, else 0.
std::uint64_t seed_shift_of(const Arguments&, Lane);

// Ids and globs of a file: one a line, '#' comments, "--from OTHER" nests (relative to the file
// that says so).
std::vector<std::string> read_ids(const std::string& file);

// What positional arguments and --from name.
std::vector<std::string> patterns_of(const Arguments&);

// The subjects that the arguments name, in order, with --check, --kernel, --device, --start and
// --shard applied. UsageError for a pattern that matches nothing.
std::vector<Subject> select(const Arguments&, Lane lane);
// The cases alone, whatever kernels there are: for a candidate from elsewhere. An id may end in the
// name of any kernel.
std::vector<Case> select_cases(const Arguments&, Lane lane);
// The same filters on subjects that come from files.
std::vector<Subject> narrow(std::vector<Subject>, const Arguments&);

SuiteOptions suite_options(const Arguments&);

}  // namespace parity::cli
