// What a file holds, as cases: a group is a case if an `op` holds for it (its own or one above) and
// it has inputs, outputs, candidates, or one of the attributes `exception`, `inputs` (how they are
// made).
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unistd.h>

#include "golden/golden.hpp"
#include "golden/h5.hpp"
#include "golden/own.hpp"
#include "golden/reduced.hpp"
#include "golden/slice.hpp"
#include "harness/failure.hpp"

namespace parity::golden {
namespace {

constexpr int kDeepestCase = 6;

struct Slot {
  pid_t pid = 0;
  std::string path = {};
  std::optional<h5::File> file = {};
};
Slot& last_opened() {
  static thread_local Slot slot;
  return slot;
}

// The file last opened by this process. Reopened after a fork: two processes must not share a file
// position.
const h5::File& opened(const std::string& path) {
  Slot& slot = last_opened();
  if (slot.pid != getpid() || slot.path != path) {
    slot.file.emplace(path);
    slot.pid = getpid();
    slot.path = path;
  }
  return *slot.file;
}

bool is_case(const h5::File& file, const std::string& group, const h5::Attributes& own) {
  if (own.contains("exception") || own.contains("inputs")) return true;
  for (const char* child : {"/inputs", "/outputs", "/candidates"})
    if (file.has_group(group + child)) return true;
  const std::vector<std::string> datasets = file.datasets(group);
  return std::ranges::find(datasets, "inputs") != datasets.end();
}

// "@name": the text of an attribute, as bytes. A digest stands for a tensor too large to keep.
Tensor text_tensor(const std::string& path, const h5::Attributes& texts) {
  const auto it = texts.find(path.substr(1));
  if (it == texts.end()) throw GoldenError("there is no attribute '" + path.substr(1) + "'");
  Tensor tensor =
      make_tensor({.name = path,
                   .dtype = Dtype::U8,
                   .dims = {{"character", static_cast<std::int64_t>(it->second.size())}}});
  std::memcpy(tensor.bytes.data(), it->second.data(), it->second.size());
  return tensor;
}

StoredCase make_case(const h5::File& file, const std::string& group, h5::Attributes attributes) {
  StoredCase stored{
      .file = file.path().string(), .name = group.substr(1), .attributes = std::move(attributes)};
  if (const std::size_t slash = stored.name.rfind('/'); slash != std::string::npos)
    stored.group = stored.name.substr(0, slash);
  stored.paths = file.datasets(group);
  for (const std::string& path : stored.paths)
    stored.path_attributes[path] = file.attributes(group + "/" + path);
  if (file.has_group(group + "/candidates"))
    for (const std::string& label : file.groups(group + "/candidates"))
      stored.path_attributes["candidates/" + label] =
          file.attributes(group + "/candidates/" + label);
  stored.read = [path = file.path().string(), group,
                 texts = stored.attributes](const std::string& dataset) {
    if (dataset.starts_with("@")) return text_tensor(dataset, texts);
    Tensor tensor =
        part_of(opened(path).read(group + "/" + std::string(whole_path(dataset))), dataset);
    tensor.spec.name = dataset;
    return tensor;
  };
  return stored;
}

void walk(const h5::File& file, const std::string& group, h5::Attributes inherited, int depth,
          std::vector<StoredCase>& cases) {
  const h5::Attributes own = file.attributes(group.empty() ? "/" : group);
  for (const auto& [name, value] : own) inherited[name] = value;
  if (!group.empty() && is_case(file, group, own)) {
    if (inherited.contains("op")) cases.push_back(make_case(file, group, std::move(inherited)));
    return;
  }
  if (depth == kDeepestCase) return;
  for (const std::string& child : file.groups(group.empty() ? "/" : group))
    walk(file, group + "/" + child, inherited, depth + 1, cases);
}

}  // namespace

void close_read_file() { last_opened() = {}; }

std::string_view name(Family family) {
  constexpr std::array<std::string_view, 3> kNames = {"own", "independent", "recording"};
  return kNames.at(static_cast<std::size_t>(family));
}

std::vector<StoredCase> stored_cases(const fs::path& path) {
  if (path.extension() == ".json") return {reduced_case(path)};
  const h5::File file(path);
  std::vector<StoredCase> cases;
  walk(file, "", {}, 0, cases);
  if (cases.empty())
    throw UsageError(path.string() + ": no group with an attribute 'op' and tensors");
  return cases;
}

Family family_of(const std::vector<StoredCase>& cases) {
  const auto holds = [](const StoredCase& c, std::string_view prefix) {
    return std::ranges::any_of(c.paths,
                               [&](const std::string& path) { return path.starts_with(prefix); });
  };
  if (std::ranges::all_of(cases, [](const StoredCase& c) {
        const auto it = c.attributes.find("family");
        return it != c.attributes.end() && it->second == "own";
      }))
    return Family::Own;
  if (std::ranges::all_of(cases, [&](const StoredCase& c) {
        return holds(c, "candidates/") && !holds(c, "outputs/");
      }))
    return Family::Recording;
  return Family::Independent;
}

}  // namespace parity::golden
