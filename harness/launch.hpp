// What a launch throws when the kernel itself, not the harness, gave up.
#pragma once

#include <stdexcept>

namespace parity {

class LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace parity
