// Stored quantisations of public packages, in the terms of the op.
#pragma once

#include "harness/registry.hpp"

namespace parity::quantize {

ImportedCase import_case(const StoredCase&);

}  // namespace parity::quantize
