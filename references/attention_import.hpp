// Stored results of fused attention (attention_import.cpp).
#pragma once

#include "harness/registry.hpp"

namespace parity::net {

[[nodiscard]] ImportedCase import_attention(const StoredCase&);

}  // namespace parity::net
