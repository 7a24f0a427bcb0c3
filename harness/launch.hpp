// What a launch throws when the kernel itself, not the harness, gave up; and where a kernel runs.
#pragma once

#include <stdexcept>

#include "harness/kernel.hpp"

namespace parity {

class LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A kernel that is asked only where it is launched says that it does not take this case, and why.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whether its memory is a GPU's; else that of this process.
bool runs_on_device(const KernelDef&);

}  // namespace parity
