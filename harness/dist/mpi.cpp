#include "harness/dist/mpi.hpp"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>

namespace parity::dist {
namespace {

using Open = Communicator* (*)(double patience_s);

std::unique_ptr<Communicator> open_world(double patience_s) {
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string file = (executable.parent_path() / "libparity_mpi.so").string();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw UsageError(fmt::format(
        "--comm mpi: {} (a build that finds libopenmpi-dev has it; ci/setup installs that)",
        dlerror()));
  const auto open = reinterpret_cast<Open>(dlsym(library, "parity_mpi_world"));
  if (open == nullptr) throw UsageError(fmt::format("{} is no library of parity's", file));
  return std::unique_ptr<Communicator>(open(patience_s));
}

}  // namespace

Communicator& mpi_world(const MpiOptions& options) {
  static const std::unique_ptr<Communicator> world = open_world(options.patience_s);
  return *world;
}

bool under_mpirun() {
  for (const char* name : std::array{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

}  // namespace parity::dist
