// Stored towers of three sources: released Kimi K3 code, torchtitan, transformers' K2.5.
#pragma once

#include "harness/registry.hpp"

namespace parity::net::vision {

ImportedCase import_case(const StoredCase&);

}  // namespace parity::net::vision
