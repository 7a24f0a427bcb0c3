// `parity diff --ranks A B`: two runs, each one file or a folder with one file a rank.
#pragma once

#include <optional>

#include "harness/cli/arguments.hpp"

namespace parity::cli {

std::optional<int> diff_ranks(const Arguments&);  // nothing where --ranks was not given

}  // namespace parity::cli
