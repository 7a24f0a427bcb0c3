// One launch of a plug-in's kernel: the harness's tensors in the form of parity_plugin.h.
#pragma once

#include "harness/kernel.hpp"
#include "harness/plugin/parity_plugin.h"

namespace parity {

// Throws Unsupported where the kernel says that it does not take the case, LaunchError where it
// says that it failed.
void launch_plugin(const parity_kernel&, const Launch&, Direction);

}  // namespace parity
