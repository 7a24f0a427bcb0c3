#include "golden/own.hpp"

#include <algorithm>
#include <cmath>

#include "golden/digest.hpp"
#include "golden/golden.hpp"
#include "golden/h5.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "harness/walk.hpp"

namespace parity::golden {
namespace {

std::string input_path(const std::string& name) {
  return name.starts_with("cotangents/") ? name : "inputs/" + name;
}
std::string result_path(const std::string& name) {
  return name.starts_with("grads/") ? name : "outputs/" + name;
}

std::string group_name(std::string id) {
  std::ranges::replace(id, '/', '_');
  return id;
}

// Noise floor of one result: the largest rel L2 distance of a variant of the base from the truth.
// Stored for people and for `golden diff`; a verdict computes its own.
double floor_of(const Base& base, const ExpectedTensor& truth) {
  double floor = 0;
  for (std::size_t run = 0; run < base.runs.size(); ++run) {
    const Values* values = base.find(run, truth.spec.name);
    if (!values || values->value.size() != truth.value.size()) continue;
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < truth.value.size(); ++i) {
      error += (values->value[i] - truth.value[i]) * (values->value[i] - truth.value[i]);
      norm += truth.value[i] * truth.value[i];
    }
    if (norm > 0) floor = std::max(floor, std::sqrt(error / norm));
  }
  return floor;
}

void write_tensor(h5::Writer& writer, const std::string& path, const Tensor& tensor,
                  bool contiguous) {
  writer.dataset(path, tensor, contiguous);
  writer.attribute(path, "role", std::string(name(tensor.spec.role)));
  writer.attribute(path, "xxh3", xxh3_hex(tensor.bytes));
}

void write_case(h5::Writer& writer, const Case& problem, bool contiguous) {
  const OpDef& op = registry().op_or_throw(problem.op);
  const Tensors inputs = generate(problem, op, kLaunchThreads);
  const Expected expected = op.reference(problem, inputs, true);
  const Contract contract =
      op.contract ? op.contract(problem, {}) : Contract{.name = "f32", .accumulate = Dtype::F32};
  const Base base = op.base ? run_base(op, problem, contract, inputs, true) : Base{};
  const std::string group = "/" + group_name(problem.id());
  writer.attribute(group, "op", problem.op);
  writer.attribute(group, "id", problem.id());
  writer.attribute(group, "seed", std::to_string(problem.seed));
  writer.attribute(group, "fill", problem.fill);
  for (const Tensor& input : inputs.list())
    write_tensor(writer, group + "/" + input_path(input.spec.name), input, contiguous);
  for (const ExpectedTensor& truth : expected.tensors) {
    const std::string path = group + "/" + result_path(truth.spec.name);
    TensorSpec spec = truth.spec;
    if (!truth.bits.empty()) {
      write_tensor(writer, path, Tensor{spec, truth.bits}, contiguous);
      continue;
    }
    spec.dtype = Dtype::F64;
    write_tensor(writer, path, make_tensor(spec, truth.value), contiguous);
    if (!truth.scale.empty())
      write_tensor(writer, group + "/scale/" + result_path(truth.spec.name),
                   make_tensor(spec, truth.scale), contiguous);
    writer.attribute(path, "floor", shortest(floor_of(base, truth)));
  }
}

}  // namespace

ImportedCase import_own(const StoredCase& stored, const OpDef& op, const std::string& id) {
  ImportedCase imported{.problem = parse_id(id).problem};
  if (op.refuses)
    if (const std::string why = op.refuses(imported.problem); !why.empty()) {
      imported.unsupported = why;
      return imported;
    }
  for (TensorSpec& spec : op.inputs(imported.problem)) {
    const std::string path = input_path(spec.name);
    if (std::ranges::find(stored.paths, path) == stored.paths.end()) {
      imported.unsupported = "input '" + spec.name + "' is not stored";
      return imported;
    }
    Tensor tensor = stored.read(path);
    if (elements(spec.dims) != tensor.elements() || spec.dtype != tensor.spec.dtype)
      throw UsageError(stored.file + ": " + stored.name + "/" + path +
                       " is not what the case's id says");
    tensor.spec = std::move(spec);
    imported.inputs.add(std::move(tensor));
  }
  for (const TensorSpec& spec : op.outputs(imported.problem)) {
    const std::string path = result_path(spec.name);
    if (std::ranges::find(stored.paths, path) != stored.paths.end())
      imported.results[spec.name] = path;
  }
  return imported;
}

std::optional<FrozenCase> frozen_case(const fs::path& own_file, const std::string& id) {
  const h5::File file(own_file);
  const std::string name = group_name(id);
  if (!file.has_group("/" + name)) return std::nullopt;
  const h5::Attributes attributes = file.attributes("/");
  const auto commit = attributes.find("commit");
  return FrozenCase{name, commit == attributes.end() ? "?" : commit->second};
}

void freeze(const FreezeOptions& options) {
  if (options.cases.empty()) throw UsageError("golden freeze: no case");
  fs::path temporary = options.file;
  temporary += ".tmp";
  {
    h5::Writer writer(temporary);
    writer.attribute("/", "family", "own");
    writer.attribute("/", "schema", "1");
    writer.attribute("/", "source", "parity fp64 references");
    for (const auto& [key, value] : options.provenance) writer.attribute("/", key, value);
    for (const Case& problem : options.cases) write_case(writer, problem, options.contiguous);
    writer.close();
  }
  fs::rename(temporary, options.file);
  const fs::path folder = fs::absolute(options.file).lexically_normal().parent_path().parent_path();
  if (fs::exists(folder / "MANIFEST.json")) write_manifest(folder);
}

}  // namespace parity::golden
