// A recorded configuration in our own terms: attributes of fsdp2.h5, kept as options of a case.
#pragma once

#include "harness/registry.hpp"
#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

// Options that say how a run is sharded, reduced and stepped; the rest of a file's attributes is
// about its model.
Options recorded_options(const StoredCase&);
Config config_of(const Case&);
// Units by the option wrap: root, block (each block), units (also tok, vis, norm with head).
std::vector<UnitSpec> units_of(const std::string& wrap, const std::vector<std::string>& names);

}  // namespace parity::fsdp
