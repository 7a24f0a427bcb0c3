// Kernels that misbehave, each in one way: what a suite must survive and name.
#pragma once

#include <string_view>
#include <vector>

namespace parity::test {

struct Evil {
  std::string_view name = {};        // of the kernel, after "test_evil."
  std::string_view status = {};      // what its record must say
  std::string_view error_kind = {};  // on `error`
  std::string_view view = {};        // on `fail`
  std::string_view complaint = {};   // a piece of the reason
};
const std::vector<Evil>& evils();

}  // namespace parity::test
