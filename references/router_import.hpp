// Stored routers of many sources (golden/independent/k3.md), which name and parametrise alike
// things differently.
#pragma once

#include "references/blocks/stored.hpp"

namespace parity::net {

ImportedCase import_router(const StoredCase&);

// Options of the routing rule by the source's attributes: score, renorm, renorm_eps, scale, groups,
// top_groups. Absent ones have their usual values.
void import_rule(const StoredCase&, Case&);

}  // namespace parity::net
