// GPU kernels of the op test_scaled that misbehave, each in one way, and one that does not; none in
// a build without nvcc.
#pragma once

#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::test {

struct EvilOnDevice {
  KernelDef kernel = {};
  std::string_view status = {};      // what its record must say
  std::string_view error_kind = {};  // on `error`
  std::string_view view = {};        // on `fail`
  std::string_view complaint = {};   // a piece of the reason
};
const std::vector<EvilOnDevice>& evils_on_device();

}  // namespace parity::test
