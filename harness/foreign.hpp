// Candidates that are no kernels of the registry: commands, functions of another program.
#pragma once

#include <string>

#include "harness/bound.hpp"

namespace parity {

// By which contract they are judged: the one that is named among those of the op's kernels ("f32"
// and "f64" for any op), else what the op expects of a kernel from elsewhere. Only the data types
// are known of them. UsageError that lists the names.
Contract foreign_contract(const Case&, const std::string& wanted = {});

}  // namespace parity
