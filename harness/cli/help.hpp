// What the command line says about itself.
#pragma once

#include <string_view>

namespace parity::cli {

extern const char* const kAbout;
extern const char* const kMore;  // exit codes, ids, where to start

struct Help {
  const char* what = "";
  const char* examples = "";
};
Help help_of(std::string_view verb);  // "run", "golden verify"

}  // namespace parity::cli
