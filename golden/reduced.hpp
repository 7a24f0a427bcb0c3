// A golden that is kept as JSON: outputs of the released Kimi K3 code on the two-layer parity model
// (k3.md §1.3). The file holds outputs alone; configuration, parameters and inputs follow from
// rules.
#pragma once

#include <filesystem>

#include "harness/registry.hpp"

namespace parity::golden {

// With the released rules as attributes (latent_norm_eps 1e-6, no renormalisation at top-1, the
// tower's eps the spacing of float32 at one). UsageError if the file is not such a golden.
StoredCase reduced_case(const std::filesystem::path& json_file);

}  // namespace parity::golden
