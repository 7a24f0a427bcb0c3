// Names of the device functions that this process launched, for the record: what a launch says it
// ran. A kernel notes each launch itself (kernels/device/launch.cuh).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace parity {

void note_launched(std::string_view mangled);
// Since the last call; demangled, without parameters, each once, in the order of their first
// launch.
std::vector<std::string> take_launched();

}  // namespace parity
