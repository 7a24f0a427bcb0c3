// Names of source files as the repository knows them, wherever it was built.
#pragma once

#include <source_location>
#include <string_view>

namespace parity {

// "harness/run_case.cpp" of "/somewhere/harness/run_case.cpp": this header's own name says how the
// compiler was told the root. What does not lie below it stays as it is.
inline std::string_view in_repository(std::string_view file) {
  std::string_view root = std::source_location::current().file_name();
  root.remove_suffix(std::string_view("harness/source_path.hpp").size());
  return file.starts_with(root) ? file.substr(root.size()) : file;
}

}  // namespace parity
