#include "references/blocks/stored.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::net {
namespace {

std::string_view without_range(std::string_view path) { return path.substr(0, path.find('[')); }

// Where the source keeps an input; below its group ("inputs/", "params/").
std::string stored_input(const std::string& ours, const Rename& rename) {
  const std::string theirs = rename ? rename(ours) : ours;
  if (theirs.empty()) return theirs;
  for (const char* group : {"params/", "inputs/", "outputs/"})  // an output may be an input of ours
    if (theirs.starts_with(group)) return theirs;
  return "inputs/" + theirs;
}

std::string stored_other(const std::string& ours, const Rename& rename) {
  const std::string theirs = rename ? rename(ours) : "";
  return theirs.find('/') != std::string::npos ? theirs : ours;
}

// "grads/params/wq.weight" -> "grads/" + where the source keeps params/wq.weight; some files keep
// the gradients of inputs right below grads/.
std::string stored_result(const StoredCase& stored, const TensorSpec& spec, const Rename& rename) {
  constexpr std::string_view kGrads = "grads/", kInputs = "inputs/", kOutputs = "outputs/";
  if (const std::string theirs = rename ? rename(spec.name) : spec.name;
      theirs != spec.name && (theirs.starts_with(kGrads) || theirs.starts_with(kOutputs)))
    return theirs;
  if (spec.role != Role::Gradient) return stored_other("outputs/" + spec.name, rename);
  std::string of = spec.name.substr(kGrads.size());
  if (of.starts_with("tap/")) return stored_other(spec.name, rename);
  if (of.starts_with(kInputs)) of = of.substr(kInputs.size());
  const std::string theirs = stored_input(of, rename);
  if (theirs.empty()) return "";
  const std::string path = std::string(kGrads) + theirs;
  if (!holds(stored, path) && theirs.starts_with(kInputs))
    return std::string(kGrads) + theirs.substr(kInputs.size());
  return path;
}

}  // namespace

bool holds(const StoredCase& stored, std::string_view path) {
  return std::ranges::find(stored.paths, without_range(path)) != stored.paths.end();
}

std::vector<std::int64_t> stored_shape(const StoredCase& stored, const std::string& path) {
  if (!holds(stored, path))
    throw GoldenError(fmt::format("{}: {} has no {}", stored.file, stored.name, path));
  std::vector<std::int64_t> extents;
  for (const Dim& dim : stored.read(path).spec.dims) extents.push_back(dim.extent);
  return extents;
}

std::string stored_text(const StoredCase& stored, const std::string& attribute,
                        const std::string& otherwise) {
  const auto it = stored.attributes.find(attribute);
  return it == stored.attributes.end() ? otherwise : it->second;
}

std::int64_t stored_integer(const StoredCase& stored, const std::string& attribute,
                            std::int64_t otherwise) {
  return static_cast<std::int64_t>(stored_real(stored, attribute, static_cast<double>(otherwise)));
}

double stored_real(const StoredCase& stored, const std::string& attribute, double otherwise) {
  const std::string text = stored_text(stored, attribute);
  return text.empty() ? otherwise : to_real(text, "attribute " + attribute);
}

Dtype stored_dtype(const StoredCase& stored) {
  return parse_dtype(stored_text(stored, "dtype", "float64"));
}

void import_composite(const StoredCase& stored, const OpDef& op, ImportedCase& imported,
                      const Rename& rename) {
  if (op.refuses != nullptr) imported.unsupported = op.refuses(imported.problem);
  if (!imported.unsupported.empty()) return;
  for (const TensorSpec& spec : op.inputs(imported.problem)) {
    const std::string path = spec.role == Role::Cotangent ? stored_other(spec.name, rename)
                                                          : stored_input(spec.name, rename);
    if (!holds(stored, path)) {
      if (spec.role != Role::Cotangent)
        throw GoldenError(
            fmt::format("{}: {} has no {} ({})", stored.file, stored.name, path, spec.name));
      imported.inputs.add(make_tensor(spec));
      continue;
    }
    const Tensor tensor = stored.read(path);
    if (tensor.elements() != elements(spec.dims))
      throw GoldenError(fmt::format("{}: {}/{} has {} elements, not {}", stored.file, stored.name,
                                    path, tensor.elements(), elements(spec.dims)));
    imported.inputs.add(make_tensor(spec, tensor.widened()));
  }
  for (const TensorSpec& spec : op.outputs(imported.problem)) {
    const std::string path = stored_result(stored, spec, rename);
    if (!path.empty() && holds(stored, path)) imported.results[spec.name] = path;
  }
}

}  // namespace parity::net
