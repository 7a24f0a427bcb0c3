// Golden files and recordings as subjects of the walk. Verify: the stored tensor is the truth and
// the reference the candidate. Recording: the reference is the truth and the stored tensor the
// candidate.
#include <algorithm>
#include <array>
#include <cmath>

#include "golden/golden.hpp"
#include "golden/own.hpp"
#include "golden/slice.hpp"
#include "harness/failure.hpp"

namespace parity::golden {
namespace {

// Results that must be accounted for: what the source computed, and its gradients.
bool is_result(const std::string& path) {
  return path.starts_with("outputs/") || path.starts_with("grads/");
}

std::string attribute(const StoredCase& stored, const std::string& name) {
  const auto it = stored.attributes.find(name);
  return it == stored.attributes.end() ? "" : it->second;
}

// The op that answers what a file calls by another name.
std::string op_name(const std::string& stored) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOthers = {
      {{"tensorcore", "gemm"}, {"scaled_mm", "gemm"}, {"grouped_mm", "gemm"}}};
  for (const auto& [theirs, ours] : kOthers)
    if (stored == theirs) return std::string(ours);
  return stored;
}

// The case as the op sees it; where it cannot, an empty case that says why.
ImportedCase import_case(const StoredCase& stored) {
  const std::string op = op_name(attribute(stored, "op"));
  const OpDef* def = registry().op(op);
  ImportedCase imported;
  if (!def)
    imported.unsupported = "no op '" + op + "' here";
  else if (const std::string id = attribute(stored, "id");
           attribute(stored, "family") == "own" && !id.empty())
    imported = import_own(stored, *def, id);
  else if (!def->import)
    imported.unsupported = "op '" + op + "' reads no stored cases";
  else
    imported = def->import(stored);
  imported.problem.op = op;
  imported.problem.recorded = fs::path(stored.file).stem().string() + ":" + stored.name;
  imported.problem.fill = "recorded";
  return imported;
}

// Precision of the source (interface.md §5): compute_dtype, else the case's dtype, else
// input_dtype, else fp64.
Dtype source_precision(const StoredCase& stored) {
  for (const char* key : {"compute_dtype", "dtype", "input_dtype"})
    if (const std::string text = attribute(stored, key); !text.empty()) try {
        return parse_dtype(text);
      } catch (const std::invalid_argument&) {
        continue;  // prose
      }
  return Dtype::F64;
}

// fp64 sources: |reference - stored| <= u |stored| + 512 u m, with m the magnitude companion: both
// sides sum the same terms in different orders, each within a few n u m; 512 covers the reductions
// of the cases in use (n <= 130 rows of K <= 128 terms) with lambda = sqrt(n) growth on both sides.
// fp32 sources: the op's own bound for an fp32 evaluation.
Bound verify_bound(const Case& problem, Dtype precision, const TensorSpec& spec) {
  if (precision == Dtype::F64)
    return {.kind = BoundKind::Estimated,
            .c_acc = 512,
            .growth = {.kind = Growth::Kind::WorstCase, .n = 1},
            .accumulate = Dtype::F64,
            .why = "fp64 source: 512 u times the magnitude companion, for two orders of summation"};
  Contract contract{.name = "source", .accumulate = Dtype::F32};
  return registry().bound_of(problem, contract, spec);
}

// Ids and counts that a source keeps in floating point, as the integers that they are.
Tensor as_declared(Tensor tensor, const TensorSpec& spec) {
  if (spec.role != Role::Ids || tensor.spec.dtype == spec.dtype) return tensor;
  const std::vector<double> values = tensor.widened();
  for (const double x : values)
    if (x != std::nearbyint(x))
      throw GoldenError("'" + tensor.spec.name + "' holds a number that is not whole");
  TensorSpec whole = tensor.spec;
  whole.dtype = spec.dtype;
  return make_tensor(std::move(whole), values);
}

// A gradient that mathematics makes zero, in exact arithmetic: what a source has there is its own
// rounding, which is judged as the error that it is.
bool vanishes(const ExpectedTensor& own) {
  return own.spec.role == Role::Gradient && own.bits.empty() &&
         std::ranges::all_of(own.value, [](double x) { return x == 0; });
}

ExpectedTensor stored_truth(const StoredCase& stored, const std::string& name,
                            const std::string& path, const Expected& reference) {
  const ExpectedTensor* own = reference.find(name);
  Tensor tensor = stored.read(path);
  if (own) tensor = as_declared(std::move(tensor), own->spec);
  ExpectedTensor truth{.spec = std::move(tensor.spec)};
  truth.spec.name = name;
  truth.spec.role = path.starts_with("grads/") ? Role::Gradient : Role::Output;
  truth.value.resize(static_cast<std::size_t>(elements(truth.spec.dims)));
  if (!own || !vanishes(*own)) widen(truth.spec.dtype, tensor.bytes.data(), 0, truth.value);
  if (own && elements(own->spec.dims) == elements(truth.spec.dims)) {
    const Dtype dtype = truth.spec.dtype;
    truth.spec = own->spec;
    truth.spec.dtype = dtype;
    truth.scale = own->scale;
    if (!own->bits.empty()) {
      truth.bits = std::move(tensor.bytes);
      truth.ignore = own->ignore;
    }
  }
  if (truth.scale.empty()) truth.scale.assign(truth.value.size(), 0.0);
  return truth;
}

Expected stored_expectation(const StoredCase& stored, const ImportedCase& imported,
                            const Expected& reference) {
  Expected expected;
  if (stored.attributes.contains("exception")) {
    expected.refused = attribute(stored, "exception");
    return expected;
  }
  std::map<std::string, std::int64_t> accounted;  // elements of each dataset, which parts may share
  for (const auto& [name, path] : imported.results) {
    expected.tensors.push_back(stored_truth(stored, name, path, reference));
    accounted[std::string(whole_path(path))] += elements(expected.tensors.back().spec.dims);
  }
  // What the import left out still has to be compared by somebody: nobody will, and the case says
  // so.
  for (const std::string& path : stored.paths)
    if (is_result(path)) {
      if (accounted[path] != stored.read(path).elements())
        expected.tensors.push_back(stored_truth(stored, path, path, reference));
    }
  return expected;
}

// The reference as a candidate, in the storage format of what it is compared with.
Observed observe_reference(const OpDef& op, const StoredCase& stored, const ImportedCase& imported,
                           const RunRequest& request) {
  const Expected reference = op.reference(request.problem, request.inputs, true);
  Observed observed{.refused = reference.refused};
  for (const auto& [name, path] : imported.results) {
    const ExpectedTensor* own = reference.find(name);
    if (!own) continue;
    TensorSpec spec = own->spec;
    if (own->bits.empty()) {
      const Tensor theirs = stored.read(path);
      spec.dtype = theirs.spec.dtype;
      observed.tensors.add(make_tensor(spec, vanishes(*own) ? theirs.widened() : own->value));
    } else {
      observed.tensors.add(Tensor{spec, own->bits});
    }
  }
  return observed;
}

Subject unsupported_subject(const ImportedCase& imported, Check check, std::string name) {
  return {.problem = imported.problem,
          .check = check,
          .judge_base = false,
          .candidates = {
              {.name = std::move(name), .unsupported = imported.unsupported, .stored = true}}};
}

Observed observe_stored(const OpDef&, const StoredCase&, const ImportedCase&);

// What a source computed in less than fp64 is no truth for an assembly of layers, whose error
// nobody can derive: it is judged as a candidate, against the fp64 reference and by the noise of an
// evaluation in its precision.
Subject twin_subject(const StoredCase& stored, const ImportedCase& imported, const OpDef& op,
                     Dtype precision) {
  Contract contract{.name = "source", .accumulate = Dtype::F32, .fidelity = Fidelity::Partial};
  if (precision != Dtype::F32) contract.roundings = {{.where = "store", .to = precision}};
  Subject subject{.problem = imported.problem, .check = Check::Golden};
  subject.inputs = [imported] { return imported.inputs; };
  subject.truth = [imported, &op](const Tensors& inputs) {
    return op.reference(imported.problem, inputs, true);
  };
  subject.candidates.push_back({.name = "source",
                                .contract = std::move(contract),
                                .stored = true,
                                .run = [stored, imported, &op](const RunRequest&) {
                                  return observe_stored(op, stored, imported);
                                }});
  return subject;
}

Subject verify_subject(const StoredCase& stored, const std::string& kernel) {
  ImportedCase imported = import_case(stored);
  imported.problem.check = Check::Golden;
  if (!imported.unsupported.empty())
    return unsupported_subject(imported, Check::Golden, "reference");
  const OpDef& op = registry().op_or_throw(imported.problem.op);
  const Dtype precision = source_precision(stored);
  if (op.kind == OpKind::Composite && precision != Dtype::F64)
    return twin_subject(stored, imported, op, precision);
  Subject subject{.problem = imported.problem, .check = Check::Golden, .judge_base = false};
  subject.inputs = [imported] { return imported.inputs; };
  subject.truth = [stored, imported, &op](const Tensors& inputs) {
    return stored_expectation(stored, imported, op.reference(imported.problem, inputs, true));
  };
  subject.bound = [problem = imported.problem, precision](const Contract&, const TensorSpec& spec) {
    return verify_bound(problem, precision, spec);
  };
  subject.candidates.push_back(
      {.name = "reference",
       .contract = {.name = "fp64 reference", .accumulate = Dtype::F64, .fidelity = Fidelity::Twin},
       .hw_verified = true,
       .stored = true,
       .run = [stored, imported, &op](const RunRequest& request) {
         return observe_reference(op, stored, imported, request);
       }});
  if (!kernel.empty()) {
    const KernelDef* def = registry().kernel(kernel);
    if (!def) throw UsageError("no kernel '" + kernel + "'");
    if (def->op == imported.problem.op)
      subject.candidates.push_back(
          candidate_of(*def, def->variants.front().options, imported.problem));
  }
  return subject;
}

// One label of a recording, as if it were a case of its own.
StoredCase candidate_view(const StoredCase& stored, const std::string& label) {
  const std::string prefix = "candidates/" + label + "/";
  StoredCase view{.file = stored.file,
                  .name = stored.name,
                  .group = stored.group,
                  .attributes = stored.attributes};
  if (const auto it = stored.path_attributes.find("candidates/" + label);
      it != stored.path_attributes.end())
    for (const auto& [key, value] : it->second) view.attributes[key] = value;
  for (const std::string& path : stored.paths) {
    if (path.starts_with("candidates/") && !path.starts_with(prefix)) continue;
    const std::string shown = path.starts_with(prefix) ? path.substr(prefix.size()) : path;
    view.paths.push_back(shown);
    view.path_attributes[shown] = stored.path_attributes.at(path);
  }
  view.read = [read = stored.read, prefix](const std::string& path) {
    Tensor tensor = read(is_result(path) ? prefix + path : path);
    tensor.spec.name = path;
    return tensor;
  };
  return view;
}

std::vector<std::string> labels_of(const StoredCase& stored) {
  std::vector<std::string> labels;
  for (const std::string& path : stored.paths) {
    if (!path.starts_with("candidates/")) continue;
    const std::size_t begin = std::string_view("candidates/").size();
    std::string label = path.substr(begin, path.find('/', begin) - begin);
    if (std::ranges::find(labels, label) == labels.end()) labels.push_back(std::move(label));
  }
  return labels;
}

Observed observe_stored(const OpDef& op, const StoredCase& view, const ImportedCase& imported) {
  Observed observed;
  const std::vector<TensorSpec> specs = op.outputs(imported.problem);
  for (const auto& [name, path] : imported.results) {
    Tensor tensor = view.read(path);
    const auto spec = std::ranges::find(specs, name, &TensorSpec::name);
    if (spec == specs.end() || elements(spec->dims) != tensor.elements())
      throw UsageError(view.file + ": " + view.name + "/" + path +
                       " does not have the shape of output '" + name + "'");
    tensor = as_declared(std::move(tensor), *spec);
    const Dtype dtype = tensor.spec.dtype;
    tensor.spec = *spec;
    tensor.spec.dtype = dtype;
    observed.tensors.add(std::move(tensor));
  }
  return observed;
}

// What a recording returned, as the exact answer.
Expected recorded_bits(const OpDef& op, const StoredCase& view, const ImportedCase& imported) {
  Expected expected;
  Observed recorded = observe_stored(op, view, imported);
  for (Tensor& tensor : recorded.tensors.list()) {
    ExpectedTensor truth{.spec = tensor.spec};
    truth.value = tensor.widened();
    truth.scale.assign(truth.value.size(), 0.0);
    truth.bits = std::move(tensor.bytes);
    expected.tensors.push_back(std::move(truth));
  }
  return expected;
}

// A recording is no truth, and nothing here is verified by it, but for the bits of a contract that
// leaves none open: there the base must return what the hardware did.
std::vector<Subject> twins_of(const StoredCase& stored) {
  std::vector<Subject> subjects;
  for (const std::string& label : labels_of(stored)) {
    const StoredCase view = candidate_view(stored, label);
    ImportedCase imported = import_case(view);
    const OpDef* op = registry().op(imported.problem.op);
    Contract contract;
    if (imported.unsupported.empty() && op != nullptr && op->contract)
      contract = op->contract(imported.problem, view.attributes);
    if (contract.fidelity != Fidelity::Twin) {
      imported.unsupported = "holds candidates only: judge them by `parity run --recording FILE`";
      subjects.push_back(unsupported_subject(imported, Check::Golden, "reference"));
      break;
    }
    Subject subject{.problem = imported.problem, .check = Check::Golden, .judge_base = false};
    subject.problem.check = Check::Golden;
    subject.inputs = [imported] { return imported.inputs; };
    subject.truth = [op, view, imported](const Tensors&) {
      return recorded_bits(*op, view, imported);
    };
    subject.candidates.push_back(base_candidate(*op, contract, ""));
    subject.candidates.back().stored = true;
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

}  // namespace

std::vector<Subject> verify_subjects(const fs::path& file, const std::string& kernel) {
  const std::vector<StoredCase> cases = stored_cases(file);
  std::vector<Subject> subjects;
  if (family_of(cases) == Family::Recording) {
    for (const StoredCase& stored : cases)
      for (Subject& subject : twins_of(stored)) subjects.push_back(std::move(subject));
    close_read_file();
    return subjects;
  }
  for (const StoredCase& stored : cases) subjects.push_back(verify_subject(stored, kernel));
  close_read_file();
  return subjects;
}

std::vector<Subject> recording_subjects(const fs::path& file) {
  std::vector<Subject> subjects;
  for (const StoredCase& stored : stored_cases(file)) {
    std::vector<Candidate> candidates;
    ImportedCase shared;
    for (const std::string& label : labels_of(stored)) {
      const StoredCase view = candidate_view(stored, label);
      ImportedCase imported = import_case(view);
      if (imported.unsupported.empty() && !registry().op_or_throw(imported.problem.op).contract)
        imported.unsupported =
            "op '" + imported.problem.op + "' does not say at which contract a recording is judged";
      Candidate candidate{.name = "recording." + label,
                          .expect_fail = attribute(view, "expected") == "fail",
                          .unsupported = imported.unsupported,
                          .stored = true};
      if (imported.unsupported.empty()) {
        const OpDef& op = registry().op_or_throw(imported.problem.op);
        candidate.contract = op.contract(imported.problem, view.attributes);
        candidate.run = [&op, view, imported](const RunRequest&) {
          return observe_stored(op, view, imported);
        };
      }
      candidates.push_back(std::move(candidate));
      shared = std::move(imported);
    }
    if (candidates.empty()) continue;
    Subject subject{
        .problem = shared.problem, .check = Check::Recording, .candidates = std::move(candidates)};
    subject.problem.check = Check::Recording;
    if (const OpDef* op = registry().op(shared.problem.op)) {
      subject.inputs = [inputs = shared.inputs] { return inputs; };
      subject.truth = [op, problem = shared.problem](const Tensors& inputs) {
        return op->reference(problem, inputs, true);
      };
    }
    subjects.push_back(std::move(subject));
  }
  close_read_file();
  if (subjects.empty()) throw UsageError(file.string() + ": holds no candidates");
  return subjects;
}

}  // namespace parity::golden
