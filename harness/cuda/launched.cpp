#include "harness/cuda/launched.hpp"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace parity {
namespace {

// Of the process: a kernel that runs on threads of its own launches from one of them.
std::vector<std::string>& names() {
  static std::vector<std::string> list;
  return list;
}

// "void parity::(anonymous namespace)::rows<float>(float const*)" without the type before the name
// and the parameters behind it.
std::string readable(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || !text) return mangled;
  std::string name = text.get();
  if (name.ends_with(')')) {
    int depth = 0;
    std::size_t at = name.size();
    do {
      --at;
      depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
    } while (at > 0 && depth > 0);
    name.resize(at);
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}

}  // namespace

void note_launched(std::string_view mangled) {
  std::string name = readable(std::string(mangled));
  if (std::ranges::find(names(), name) == names().end()) names().push_back(std::move(name));
}

std::vector<std::string> take_launched() {
  std::vector<std::string> taken;
  taken.swap(names());
  return taken;
}

}  // namespace parity
