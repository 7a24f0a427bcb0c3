#include "harness/cli/verb.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace parity::cli {
namespace {

// Filled while libraries load, before main: read only afterwards.
std::vector<Verb>& verbs() {
  static std::vector<Verb> list;
  return list;
}

std::vector<std::pair<std::string, Option>>& more() {
  static std::vector<std::pair<std::string, Option>> list;
  return list;
}

}  // namespace

RegisterVerb::RegisterVerb(Verb verb) { verbs().push_back(std::move(verb)); }

MoreOptions::MoreOptions(const char* path, std::vector<Option> options) {
  for (Option& option : options) more().emplace_back(path, std::move(option));
}

std::vector<Verb> registered_verbs() {
  std::vector<Verb> list = verbs();
  std::ranges::sort(list,
                    [](const Verb& a, const Verb& b) { return std::strcmp(a.path, b.path) < 0; });
  return list;
}

std::vector<Option> options_beside(const std::string& path) {
  std::vector<Option> list;
  for (const auto& [to, option] : more())
    if (to == path) list.push_back(option);
  std::ranges::sort(
      list, [](const Option& a, const Option& b) { return std::strcmp(a.names, b.names) < 0; });
  return list;
}

}  // namespace parity::cli
