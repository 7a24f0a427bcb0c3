// A fault of the kernels, switched on in a run: what the report says of a defect that is known.
#pragma once

#include <string>
#include <vector>

#include "harness/source.hpp"

namespace parity::cli {

// Keeps the candidates that know the fault (its id or its other one), with it. UsageError if there
// are none.
void plant(std::vector<Subject>&, const std::string& fault);

}  // namespace parity::cli
