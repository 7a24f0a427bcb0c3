// Stored mixtures of experts: torchtitan's names, the released ones, and transformers' stacked
// experts.
#pragma once

#include "references/blocks/stored.hpp"

namespace parity::net {

ImportedCase import_moe(const StoredCase&);

// Where a source that stacks its experts or names them otherwise keeps one of ours
// ("experts.3.w1.weight"), below "params/"; `prefix` is the layer's ("" alone). Expert width F
// tells where up rows begin in stacked gates.
std::string stored_moe_name(const StoredCase&, const std::string& prefix, const std::string& ours,
                            std::int64_t F);

}  // namespace parity::net
