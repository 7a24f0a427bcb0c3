#include "harness/plugin_kernels.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <fmt/format.h>
#include <utility>

#include "harness/child.hpp"
#include "harness/failure.hpp"
#include "harness/launch.hpp"
#include "harness/plugin_launch.hpp"
#include "harness/registry.hpp"
#include "harness/text.hpp"

namespace parity {
namespace {

namespace fs = std::filesystem;

constexpr double kReading = 30;  // seconds to load a library and read its table
constexpr std::size_t kMost = 256;

// A kernel of a plug-in. The registry's definition of it points into this.
struct Slot {
  fs::path file = {};
  std::size_t index = 0;  // in the table of the library
  PluginKernel kernel = {};
  const parity_kernel* loaded = nullptr;  // in the process that launches it
};

std::deque<Slot>& slots() {
  static std::deque<Slot> all;
  return all;
}

void launch_slot(std::size_t number, const Launch& l, Direction direction) {
  Slot& slot = slots().at(number);
  if (!slot.loaded) {
    try {
      const parity_plugin& plugin = load_plugin(slot.file);
      if (slot.index >= plugin.n_kernels || slot.kernel.name != plugin.kernels[slot.index].name)
        throw UsageError("has another table than a moment ago");
      slot.loaded = &plugin.kernels[slot.index];
    } catch (const UsageError& error) {
      throw LaunchError(fmt::format("{} {}", slot.file.string(), error.what()));
    }
  }
  launch_plugin(*slot.loaded, l, direction);
}

// A kernel of the registry is a function without data: each slot has functions of its own.
using Function = void (*)(const Launch&);
template <std::size_t Number, Direction direction>
void call(const Launch& l) {
  launch_slot(Number, l, direction);
}
template <Direction direction>
constexpr auto kCalls = []<std::size_t... Number>(std::index_sequence<Number...>) {
  return std::array<Function, sizeof...(Number)>{call<Number, direction>...};
}
(std::make_index_sequence<kMost>());

Dtype dtype_of(const PluginKernel& kernel, const std::string& word) {
  try {
    return parse_dtype(word);
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("kernel '{}': {}", kernel.name, error.what()));
  }
}

// One that a kernel of the op has, by its name; else what the plug-in says of its arithmetic.
Contract contract_of(const PluginKernel& kernel) {
  Contract contract{.name = kernel.contract};
  std::vector<std::string> known;
  bool found = false;
  for (const KernelDef& other : registry().kernels) {
    if (other.op != kernel.op) continue;
    known.push_back(other.contract.name);
    if (!found && !kernel.contract.empty() && other.contract.name == kernel.contract)
      contract = other.contract, found = true;
  }
  if (!kernel.contract.empty() && !found)
    throw UsageError(fmt::format("kernel '{}': no kernel of {} has the contract '{}', known: {}",
                                 kernel.name, kernel.op, kernel.contract, fmt::join(known, ", ")));
  if (!found) {
    contract.accumulate = dtype_of(kernel, kernel.accumulate.empty() ? "f32" : kernel.accumulate);
    contract.name = name(contract.accumulate);
    contract.chunk = kernel.chunk;
    for (const PluginRounding& point : kernel.roundings) {
      if (!point.mode.empty() && point.mode != "truncate")
        throw UsageError(fmt::format("kernel '{}': rounding mode '{}'; known: truncate",
                                     kernel.name, point.mode));
      contract.roundings.push_back(
          {point.where, dtype_of(kernel, point.to),
           point.mode.empty() ? Rounding::NearestEven : Rounding::TowardZero});
    }
  }
  contract.dtypes.clear();
  for (const std::string& word : kernel.dtypes) contract.dtypes.push_back(dtype_of(kernel, word));
  contract.fidelity = Fidelity::Partial;  // of somebody else's kernel no more is known
  contract.deterministic = kernel.deterministic;
  contract.invariant = kernel.invariant;
  return contract;
}

void check_names(const PluginKernel& kernel) {
  registry().op_or_throw(kernel.op);
  if (kernel.name.find_first_of("@/[]*? \t\n'\"") != std::string::npos)
    throw UsageError(fmt::format(
        "kernel '{}': a name with '@', '/', '[', '*', '?', quotes or blanks is in no id",
        kernel.name));
  if (registry().kernel(kernel.name))
    throw UsageError(fmt::format("kernel '{}': there is one of that name already", kernel.name));
}

std::string add(const fs::path& file, std::size_t index, PluginKernel read) {
  if (slots().size() >= kMost) throw UsageError(fmt::format("more than {} kernels", kMost));
  check_names(read);
  Contract contract = contract_of(read);
  const std::size_t number = slots().size();
  const PluginKernel& kernel =
      slots().emplace_back(Slot{.file = file, .index = index, .kernel = std::move(read)}).kernel;
  KernelDef def{.op = kernel.op,
                .name = kernel.name,
                .what = kernel.what,
                .needs = kernel.needs,
                .contract = std::move(contract),
                .forward = kCalls<Direction::Forward>[number],
                .backward = kernel.backward ? kCalls<Direction::Backward>[number] : nullptr};
  for (const auto& [id, what] : kernel.faults) def.faults.push_back({.id = id, .what = what});
  const Register registered{std::move(def)};
  return kernel.name;
}

}  // namespace

std::vector<std::string> register_plugin(const fs::path& given) {
  const auto refuse = [&](const std::string& why) {
    return UsageError(fmt::format("--plugin {}: {}", given.string(), why));
  };
  std::error_code failed;
  const fs::path file = fs::absolute(given, failed);
  if (!fs::is_regular_file(file, failed)) throw refuse("no such file");
  const ChildAnswer table =
      in_child([&] { return print_table(load_plugin(file)); }, {.seconds = kReading});
  if (table.trouble.kind == "thrown") throw refuse(table.trouble.reason);
  if (!table.ok()) throw refuse("while its table was read it " + table.trouble.reason);
  std::vector<std::string> names;
  std::vector<PluginKernel> kernels = parse_table(table.bytes);
  try {
    for (std::size_t i = 0; i < kernels.size(); ++i)
      names.push_back(add(file, i, std::move(kernels[i])));
  } catch (const UsageError& error) {
    throw refuse(error.what());
  }
  return names;
}

fs::path plugin_of(std::string_view kernel) {
  const auto slot =
      std::ranges::find_if(slots(), [&](const Slot& each) { return each.kernel.name == kernel; });
  return slot == slots().end() ? fs::path() : slot->file;
}

}  // namespace parity
