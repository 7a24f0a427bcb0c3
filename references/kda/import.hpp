// Cases of golden files and recordings in the op's own terms (golden/independent/kda.md).
#pragma once

#include <map>
#include <string>

#include "harness/registry.hpp"

namespace parity::kda {

ImportedCase import_case(const StoredCase&);

}  // namespace parity::kda
