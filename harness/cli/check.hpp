// What `parity check` finds in a registry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"

namespace parity::cli {

struct Finding {
  std::string rule = {};  // collision, reference, case, mutant, kernel, bound, loosened, waiver,
                          // coverage, words
  std::string what = {};  // a sentence
};
std::vector<Finding> lint(const Registry&, std::string_view today);

}  // namespace parity::cli
