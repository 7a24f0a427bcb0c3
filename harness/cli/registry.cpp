// parity registry --write FILE: a step of the build. Loads the library that sees LibTorch, so that
// its kernels register, and writes what there is.
#include <dlfcn.h>
#include <fmt/format.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/catalogue.hpp"
#include "harness/environment.hpp"
#include "harness/failure.hpp"
#include "reports/reports.hpp"

namespace parity::cli {

int write_registry(const Arguments& args) {
  if (const std::string library = torch_library_path(); !library.empty())
    if (!::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
      throw Failure(fmt::format("{} cannot be loaded: {}", library, ::dlerror()));
  reports::write_atomically(args.write, to_json(registered()));
  return 0;
}

}  // namespace parity::cli
