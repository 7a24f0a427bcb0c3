// Kernels of somebody else's shared library (plugin/parity_plugin.h) as kernels of the registry:
// cases, guard rails, mutants and ids know no difference.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/plugin_table.hpp"

namespace parity {

// Registers what the library exports and returns the names of its kernels. The library is loaded in
// children only: in one that reads the table, and wherever a kernel is launched. UsageError where
// it is no plug-in that this parity can use.
std::vector<std::string> register_plugin(const std::filesystem::path&);

// Whether a kernel of the registry came from a plug-in, and from which file; "" = it did not.
std::filesystem::path plugin_of(std::string_view kernel);

}  // namespace parity
