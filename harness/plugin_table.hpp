// What a plug-in says of its kernels, read where the library is loaded and sent home as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/plugin/parity_plugin.h"

namespace parity {

struct PluginRounding {
  std::string where = {}, to = {}, mode = {};
};
struct PluginKernel {
  std::string op = {}, name = {}, what = {}, needs = {}, contract = {}, accumulate = {};
  std::int64_t chunk = 0;
  bool deterministic = true, backward = false;
  std::vector<std::string> dtypes = {}, invariant = {};
  std::vector<PluginRounding> roundings = {};
  std::vector<std::pair<std::string, std::string>> faults = {};  // id, what
};

// Loads the library into this process and checks its table. UsageError: it cannot be loaded, has no
// table or one of another version. Call it where a crash does no harm.
const parity_plugin& load_plugin(const std::filesystem::path&);

std::string print_table(const parity_plugin&);  // UsageError where a kernel lacks what it needs
std::vector<PluginKernel> parse_table(std::string_view);

}  // namespace parity
