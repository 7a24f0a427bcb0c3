#include "references/blocks/unit_op.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::unit {

double Vary::sum(std::span<const double> terms) const {
  double total = 0;
  double lost = 0;
  for (const double x : terms) {
    const double next = total + x;
    lost += std::abs(total) >= std::abs(x) ? (total - next) + x : (x - next) + total;
    total = next;
  }
  return std::isfinite(lost) ? total + lost : total;
}

float Vary::sum(std::span<const float> terms) const {
  constexpr std::array<std::size_t, 4> kBlocks = {4, 8, 16, 32};
  const std::size_t n = terms.size();
  const std::size_t block = variation_ == 0 ? std::max<std::size_t>(n, 1)
                                            : kBlocks[static_cast<std::size_t>(variation_) % 4];
  const bool backwards = variation_ % 2 == 1;
  float total = 0;
  for (std::size_t first = 0; first < n; first += block) {
    float part = 0;
    for (std::size_t i = first; i < std::min(n, first + block); ++i)
      part += terms[backwards ? n - 1 - i : i];
    total += part;
  }
  return total;
}

namespace {

bool wanted(const TensorSpec& spec, bool gradients) {
  return gradients || spec.role != Role::Gradient;
}

template <class T>
const std::vector<T>& result(const Results<T>& results, const TensorSpec& spec) {
  const auto it = results.find(spec.name);
  if (it == results.end()) throw Failure("the reference computes no '" + spec.name + "'");
  if (static_cast<std::int64_t>(it->second.size()) != elements(spec.dims))
    throw Failure("the reference computes " + std::to_string(it->second.size()) + " elements of '" +
                  spec.name + "', not " + std::to_string(elements(spec.dims)));
  return it->second;
}

}  // namespace

Expected expected_of(const std::vector<TensorSpec>& specs, Results<double>&& value,
                     Results<double>&& scale, bool gradients) {
  Expected expected;
  for (const TensorSpec& spec : specs) {
    if (!wanted(spec, gradients)) continue;
    expected.tensors.push_back(
        {.spec = spec, .value = result(value, spec), .scale = result(scale, spec)});
  }
  return expected;
}

Evaluation evaluation_of(const std::vector<TensorSpec>& specs, const Results<float>& results,
                         bool gradients) {
  Evaluation evaluation;
  for (const TensorSpec& spec : specs) {
    if (!wanted(spec, gradients)) continue;
    Values values{.name = spec.name};
    for (const float x : result(results, spec))
      values.value.push_back(round_to(spec.dtype, static_cast<double>(x)));
    evaluation.push_back(std::move(values));
  }
  return evaluation;
}

std::string attribute(const StoredCase& stored, const std::string& name,
                      const std::string& otherwise) {
  const auto it = stored.attributes.find(name);
  return it == stored.attributes.end() ? otherwise : it->second;
}

bool has(const StoredCase& stored, std::string_view path) {
  return std::ranges::find(stored.paths, path) != stored.paths.end();
}

std::vector<std::int64_t> shape(const StoredCase& stored, const std::string& path,
                                std::size_t axes) {
  if (!has(stored, path)) throw GoldenError(stored.file + ": " + stored.name + " has no " + path);
  std::vector<std::int64_t> extents;
  for (const Dim& dim : stored.read(path).spec.dims) extents.push_back(dim.extent);
  if (extents.size() != axes)
    throw GoldenError(stored.file + ": " + stored.name + "/" + path + " has " +
                      std::to_string(extents.size()) + " axes, not " + std::to_string(axes));
  return extents;
}

void set_option(const StoredCase& stored, Options& options, const char* name,
                const std::string& attribute_name, double usual) {
  const std::string text = attribute(stored, attribute_name);
  if (text.empty()) return;
  const double value = to_real(text, "attribute " + attribute_name);
  if (value == usual) return;
  std::array<char, 32> shortest{};
  const auto [end, error] =
      std::to_chars(shortest.data(), shortest.data() + shortest.size(), value);
  options.set(name, std::string_view(shortest.data(), end));
}

void import_tensors(const StoredCase& stored, const OpDef& op, ImportedCase& imported) {
  if (op.refuses != nullptr) imported.unsupported = op.refuses(imported.problem);
  if (!imported.unsupported.empty()) return;
  for (const TensorSpec& spec : op.inputs(imported.problem)) {
    const std::string path = spec.role == Role::Cotangent ? spec.name : "inputs/" + spec.name;
    if (!has(stored, path)) throw GoldenError(stored.file + ": " + stored.name + " has no " + path);
    Tensor tensor = stored.read(path);
    if (tensor.elements() != elements(spec.dims))
      throw GoldenError(stored.file + ": " + stored.name + "/" + path + " has " +
                        std::to_string(tensor.elements()) + " elements, not " +
                        std::to_string(elements(spec.dims)));
    const Dtype stored_as = tensor.spec.dtype;
    tensor.spec = spec;
    tensor.spec.dtype = stored_as;
    imported.inputs.add(std::move(tensor));
  }
  for (const TensorSpec& spec : op.outputs(imported.problem)) {
    const std::string path = spec.role == Role::Gradient ? spec.name : "outputs/" + spec.name;
    if (has(stored, path)) imported.results[spec.name] = path;
  }
}

std::vector<std::int64_t> sequence_starts(const Case& c) {
  const Size* T = c.sizes.find("T");
  if (T == nullptr) throw Failure("case '" + c.id() + "' has no size T");
  std::vector<std::int64_t> starts = {0};
  if (T->parts.empty())
    for (std::int64_t b = 0; b < c.sizes.get("B", 1); ++b)
      starts.push_back(starts.back() + T->extent);
  for (const std::int64_t part : T->parts) starts.push_back(starts.back() + part);
  return starts;
}

bool derive_cu_seqlens(const Case& c, Tensor& tensor) {
  if (tensor.spec.name != "cu_seqlens") return false;
  const std::vector<std::int64_t> starts = sequence_starts(c);
  std::copy(starts.begin(), starts.end(), tensor.as<std::int64_t>().begin());
  return true;
}

}  // namespace parity::unit
