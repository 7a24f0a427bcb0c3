// Stored quantisations of public packages, in the terms of the op.
#pragma once

#include "harness/registry.hpp"

namespace parity::quantize {

ImportedCase import_case(const StoredCase&);

// For ChainDef::import.
bool has(const StoredCase&, std::string_view path);
std::string attribute(const StoredCase&, const std::string& name);  // "" where there is none

}  // namespace parity::quantize
