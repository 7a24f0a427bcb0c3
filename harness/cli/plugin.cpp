// --plugin FILE.so of every verb that runs or lists kernels.
#include <fmt/format.h>
#include <utility>

#include "harness/cli/candidates.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/cli/verb.hpp"
#include "harness/plugin_kernels.hpp"

namespace parity::cli {
namespace {

std::vector<std::string> files;

Option option() {
  return {
      .names = "--plugin",
      .type = "FILE",
      .to = &files,
      .what = "Kernels of this shared library too (harness/plugin/parity_plugin.h); repeatable"};
}

const MoreOptions list_has{"list", {option()}}, show_has{"show", {option()}},
    run_has{"run", {option()}}, mutate_has{"mutate", {option()}},
    explain_has{"explain", {option()}}, shrink_has{"shrink", {option()}};

}  // namespace

std::string load_plugins() {
  static std::string flags;
  for (const std::string& file : std::exchange(files, {})) {
    register_plugin(file);
    flags += " --plugin " + shell_word(file);
  }
  return flags;
}

}  // namespace parity::cli
