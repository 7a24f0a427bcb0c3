// parity show --checkpoint PATH [--model k3|debug]: what a checkpoint holds, and whether it is all
// that the model needs and nothing else.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <unordered_map>

#include "golden/io/tensor_file.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/terminal.hpp"
#include "harness/failure.hpp"
#include "references/checkpoint/inventory.hpp"
#include "references/checkpoint/names.hpp"
#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

using checkpoint::ModelSizes;
using checkpoint::StoredTensor;
using io::TensorFile;
using io::TensorInfo;
using reports::visible;

constexpr std::size_t kMostNames = 20;  // of a list on a terminal; --verbose shows all
constexpr std::string_view kText = "language_model.";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

// "layers.17.w" -> "layers.#.w": tensors that differ in their numbers alone are shown as one.
std::string pattern_of(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    const bool whole =
        end > i && (i == 0 || name[i - 1] == '.') && (end == name.size() || name[end] == '.');
    text += whole ? "#" : name.substr(i, std::max<std::size_t>(1, end - i));
    i = std::max(end, i + 1);
  }
  return text;
}

struct Group {
  std::string pattern = {};
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape = {};
  std::int64_t count = 0;
};

struct Audit {
  std::int64_t bytes = 0;
  std::map<std::string, std::int64_t> dtypes = {};
  std::vector<Group> groups = {};  // in the order of the file
  // With a model:
  std::string model = {}, names = {};
  std::int64_t expected = 0, parameters = 0;
  std::vector<std::string> missing = {}, unexpected = {}, shapes = {}, formats = {}, padding = {};
  bool whole() const {
    return missing.empty() && unexpected.empty() && shapes.empty() && padding.empty();
  }
};

void list(Audit& audit, const TensorFile& file) {
  std::map<std::tuple<std::string, Dtype, std::vector<std::int64_t>>, std::size_t> places;
  for (const TensorInfo& t : file.tensors()) {
    audit.bytes += t.bytes;
    ++audit.dtypes[std::string(name(t.dtype))];
    const auto [it, fresh] =
        places.emplace(std::tuple(pattern_of(t.name), t.dtype, t.shape), audit.groups.size());
    if (fresh) audit.groups.push_back({std::get<0>(it->first), t.dtype, t.shape, 0});
    ++audit.groups[it->second].count;
  }
}

std::string plain(const std::string& name) {
  return name.starts_with(kText) ? name.substr(kText.size()) : name;
}

// The stored heads beyond the model's must be zeros.
void check_padding(Audit& audit, const TensorFile& file, std::size_t tensor, std::int64_t heads) {
  const std::vector<double> values = file.read(tensor).widened();
  for (std::size_t i = static_cast<std::size_t>(heads); i < values.size(); ++i)
    if (!(values[i] == 0))
      return audit.padding.push_back(fmt::format("{}: element {} is {} where padding is zero",
                                                 file.tensors()[tensor].name, i, values[i]));
}

class Auditor {
 public:
  Auditor(Audit& audit, const TensorFile& file, ModelSizes sizes)
      : audit_(audit), file_(file), sizes_(std::move(sizes)) {}

  void run() {
    torchtitan_ = std::ranges::any_of(
        file_.tensors(), [](const TensorInfo& t) { return checkpoint::is_torchtitan(t.name); });
    sizes_.packed_experts =
        sizes_.packed_experts && std::ranges::any_of(file_.tensors(), [](const TensorInfo& t) {
          return t.name.ends_with(".weight_packed");
        });
    const std::vector<StoredTensor> wanted = checkpoint::inventory(sizes_);
    for (const StoredTensor& t : wanted)
      for (std::string& name : names_of(t)) wanted_.emplace(std::move(name), &t);
    audit_.model = sizes_.name;
    audit_.names = torchtitan_ ? "torchtitan" : "released";
    audit_.expected = static_cast<std::int64_t>(wanted_.size());
    std::unordered_map<std::string, bool> found;
    for (std::size_t i = 0; i < file_.tensors().size(); ++i) {
      const std::string& name = file_.tensors()[i].name;
      const auto it = wanted_.find(plain(name));
      if (it == wanted_.end() || !found.emplace(it->first, true).second)
        audit_.unexpected.push_back(name);
      else
        check(i, *it->second);
    }
    for (const StoredTensor& t : wanted) {
      audit_.parameters += t.parameters;
      for (const std::string& name : names_of(t))
        if (!found.contains(name)) audit_.missing.push_back(name);
    }
  }

 private:
  std::vector<std::string> names_of(const StoredTensor& t) const {
    return torchtitan_ ? checkpoint::torchtitan_names(sizes_, t.name)
                       : std::vector<std::string>{plain(t.name)};
  }

  void check(std::size_t tensor, const StoredTensor& want) {
    const TensorInfo& got = file_.tensors()[tensor];
    const bool decay = want.name.ends_with(".A_log");
    std::vector<std::int64_t> shape = want.shape;
    if (decay && got.shape == std::vector{sizes_.H}) shape = got.shape;  // without its padding
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape) elements *= extent;
    // torchtitan keeps the same values in other shapes (dt_bias by head), and a third of wqkv.
    const auto parts = static_cast<std::int64_t>(names_of(want).size());
    const bool fits = torchtitan_ ? got.elements * parts == elements : got.shape == shape;
    if (!fits)
      audit_.shapes.push_back(fmt::format("{}: {} where the model has {}", got.name,
                                          shape_text(got.shape), shape_text(shape)));
    else if (decay)
      check_padding(audit_, file_, tensor, sizes_.H);
    if (got.dtype != want.dtype)
      audit_.formats.push_back(fmt::format("{}: {} where the released one has {}", got.name,
                                           name(got.dtype), name(want.dtype)));
  }

  Audit& audit_;
  const TensorFile& file_;
  ModelSizes sizes_;
  bool torchtitan_ = false;
  std::unordered_map<std::string, const StoredTensor*> wanted_ = {};
};

std::string lines(std::string_view what, const std::vector<std::string>& names, bool all) {
  if (names.empty()) return "";
  std::string text = fmt::format("{} ({})\n", what, names.size());
  for (std::size_t i = 0; i < names.size() && (all || i < kMostNames); ++i)
    text += fmt::format("  {}\n", visible(names[i]));
  if (!all && names.size() > kMostNames)
    text += fmt::format("  and {} more; -v shows them\n", names.size() - kMostNames);
  return text;
}

std::string text_of(const Audit& audit, const TensorFile& file, bool verbose) {
  std::vector<std::string> dtypes;
  for (const auto& [dtype, count] : audit.dtypes)
    dtypes.push_back(fmt::format("{} {}", count, dtype));
  std::string text =
      fmt::format("{}: {} tensors, {} ({})\n\n", file.path().string(), file.tensors().size(),
                  reports::bytes_of(audit.bytes), fmt::join(dtypes, ", "));
  if (verbose) {
    for (const TensorInfo& t : file.tensors())
      text += fmt::format("{:<6} {:<16} {}\n", name(t.dtype), shape_text(t.shape), visible(t.name));
  } else {
    for (const Group& group : audit.groups)
      text += fmt::format("{:>7} x {:<6} {:<16} {}\n", group.count, name(group.dtype),
                          shape_text(group.shape), visible(group.pattern));
  }
  if (audit.model.empty()) return text;
  text += "\n" + lines("missing", audit.missing, verbose) +
          lines("unexpected", audit.unexpected, verbose) +
          lines("of another shape", audit.shapes, verbose) +
          lines("padding that is not zero", audit.padding, verbose) +
          lines("in another format (not counted as wrong)", audit.formats, verbose);
  return text + fmt::format(
                    "model {} ({} parameters) by {} names: {} tensors expected, {} missing, "
                    "{} unexpected, {} of another shape\n",
                    audit.model, audit.parameters, audit.names, audit.expected,
                    audit.missing.size(), audit.unexpected.size(), audit.shapes.size());
}

std::string json_of(const Audit& audit, const TensorFile& file, int exit) {
  reports::JsonWriter out;
  out.begin_object()
      .field("schema", 1)
      .field("path", file.path().string())
      .field("tensors", file.tensors().size())
      .field("bytes", audit.bytes)
      .field("dtypes", audit.dtypes)
      .key("groups")
      .begin_array();
  for (const Group& group : audit.groups)
    out.begin_object()
        .field("name", group.pattern)
        .field("dtype", name(group.dtype))
        .field("shape", group.shape)
        .field("count", group.count)
        .end_object();
  out.end_array();
  if (!audit.model.empty())
    out.field("model", audit.model)
        .field("names", audit.names)
        .field("expected", audit.expected)
        .field("parameters", audit.parameters)
        .field("missing", audit.missing)
        .field("unexpected", audit.unexpected)
        .field("shapes", audit.shapes)
        .field("padding", audit.padding)
        .field("formats", audit.formats);
  return out.field("exit", exit).end_object().text() + "\n";
}

}  // namespace

int show_checkpoint(const Arguments& args) {
  if (!args.names.empty()) throw UsageError("--checkpoint: takes no id of a case");
  const TensorFile file = io::open(args.checkpoint);
  Audit audit;
  list(audit, file);
  if (!args.model.empty()) Auditor(audit, file, checkpoint::model_sizes(args.model)).run();
  const int exit = file.tensors().empty() ? 4 : audit.whole() ? 0 : 1;
  print(args.json ? json_of(audit, file, exit) : text_of(audit, file, args.verbose));
  return exit;
}

}  // namespace parity::cli
