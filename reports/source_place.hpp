// Where a record's kernel stands in the repository: what code hosts can point at.
#pragma once

#include <optional>
#include <string>

#include "harness/record.hpp"

namespace parity::reports {

struct SourcePlace {
  std::string file = {};  // relative to the root of the repository
  unsigned line = 1;
};
// Nothing for what is no kernel of this executable: references, recordings, kernels of libraries
// that are not loaded.
std::optional<SourcePlace> place_of_kernel(const CaseRecord&);

}  // namespace parity::reports
