// Attributes -> options, datasets -> tensors. Sizes come from the datasets and are checked against
// the attributes; a packed batch takes its parts from cu_seqlens.
#include "references/kda/import.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "harness/failure.hpp"
#include "references/kda/problem.hpp"

namespace parity::kda {
namespace {

std::string attribute(const StoredCase& stored, const std::string& name,
                      const std::string& otherwise = {}) {
  const auto it = stored.attributes.find(name);
  return it == stored.attributes.end() ? otherwise : it->second;
}

double number(const std::string& text, const std::string& what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Failure("kda: attribute " + what + " is '" + text + "', not a number");
  return value;
}

double real(const StoredCase& stored, const std::string& name, double otherwise) {
  const std::string text = attribute(stored, name);
  return text.empty() ? otherwise : number(text, name);
}

bool flag(const StoredCase& stored, const std::string& name) { return real(stored, name, 0) != 0; }

bool has(const StoredCase& stored, const std::string& path) {
  return std::find(stored.paths.begin(), stored.paths.end(), path) != stored.paths.end();
}

std::int64_t size_of(const StoredCase& stored, const std::string& name) {
  const double value = real(stored, name, -1);
  if (!(value >= 0) || value != std::floor(value) || value > 1e9)
    throw Failure("kda: attribute " + name + " of case '" + stored.name + "' is no size");
  return static_cast<std::int64_t>(value);
}

// Shortest text that reads back to the same double.
std::string print(double x) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, x);
  return {text, end};
}

Sizes sizes_of(const StoredCase& stored) {
  Sizes sizes;
  sizes.set({"B", size_of(stored, "B"), {}});
  Size T{"T", size_of(stored, "T"), {}};
  if (flag(stored, "varlen")) {
    const Tensor cu = stored.read("inputs/cu_seqlens");
    const std::vector<double> offsets = cu.widened();
    if (offsets.size() < 2 || offsets.front() != 0)
      throw Failure("kda: cu_seqlens of case '" + stored.name +
                    "' must start at 0 and name a sequence");
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      if (!(offsets[i] >= offsets[i - 1]))
        throw Failure("kda: cu_seqlens of case '" + stored.name + "' decreases");
      T.parts.push_back(static_cast<std::int64_t>(offsets[i] - offsets[i - 1]));
    }
    if (static_cast<std::int64_t>(offsets.back()) < T.extent)
      T.parts.push_back(T.extent - static_cast<std::int64_t>(offsets.back()));
  }
  sizes.set(T);
  for (const char* name : {"H", "HV", "K", "V"}) sizes.set({name, size_of(stored, name), {}});
  return sizes;
}

// An option that the reference does not know makes the case `unsupported`.
std::string options_of(const StoredCase& stored, bool golden, Options& options) {
  std::string gate = attribute(stored, "gate_variant", "none");
  const bool in_kernel = flag(stored, "use_gate_in_kernel");
  if (gate.starts_with("none")) {
    if (in_kernel) return "use_gate_in_kernel without a gate_variant";
  } else if (gate == "softplus") {
    if (real(stored, "softplus_threshold", kSoftplusLinear) != kSoftplusLinear)
      return "softplus threshold " + attribute(stored, "softplus_threshold");
    options.set("gate", "softplus");
  } else if (gate == "lower_bound" || gate == "lower_bound_no_A") {
    const bool has_A = has(stored, "inputs/A_log");
    if (has_A != (gate == "lower_bound"))
      return "gate_variant " + gate + (has_A ? " with" : " without") + " A_log";
    options.set("gate", has_A ? "lower" : "lower_noA");
    const double lb = real(stored, "lower_bound", -5);
    if (lb != -5) options.set("lb", print(lb));
  } else {
    return "gate_variant '" + gate + "'";
  }
  if (has(stored, "inputs/dt_bias")) options.set("bias", "1");
  if (flag(stored, "use_qk_l2norm_in_kernel")) {
    if (real(stored, "l2norm_eps", kNormEps) != kNormEps)
      return "l2norm_eps " + attribute(stored, "l2norm_eps");
    options.set("l2norm", "1");
  }
  if (flag(stored, "use_beta_sigmoid_in_kernel"))
    options.set("beta", real(stored, "beta_scale", 1) == 2 || flag(stored, "allow_neg_eigval")
                            ? "neg"
                            : "sigmoid");
  if (flag(stored, "headwise_beta")) options.set("headwise", "1");
  const double scale = real(stored, "scale", 0), usual = std::pow(real(stored, "K", 1), -0.5);
  if (scale != 0 && scale != usual) options.set("scale", print(scale));
  if (has(stored, "inputs/initial_state")) options.set("h0", "1");
  if (has(stored, "cotangents/final_state")) options.set("dht", "1");
  if (!has(stored, "cotangents/o")) options.set("grad", "0");
  if (attribute(stored, "state_layout").starts_with("V-first")) options.set("vfirst", "1");
  if (golden) options.set("taps", "1");
  return {};
}

Dtype dtype_of(const StoredCase& stored) { return stored.read("inputs/q").spec.dtype; }

}  // namespace

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "kda";
  const bool recording = attribute(stored, "role") == "candidate";
  c.dtype = dtype_of(stored);
  c.sizes = sizes_of(stored);
  c.fill = attribute(stored, "fill", recording ? "recorded" : "stored");
  imported.unsupported = options_of(stored, !recording, c.options);
  const Size& T = *c.sizes.find("T");
  if (!T.parts.empty() && static_cast<std::int64_t>(T.parts.size()) > size_of(stored, "N"))
    c.options.set("unused", "1");
  if (imported.unsupported.empty()) imported.unsupported = refuses(c);
  if (!imported.unsupported.empty()) return imported;
  for (const TensorSpec& spec : input_specs(c)) {
    const std::string path = spec.role == Role::Cotangent ? spec.name : "inputs/" + spec.name;
    Tensor tensor = stored.read(path);
    if (tensor.elements() != elements(spec.dims))
      throw Failure("kda: " + path + " of case '" + stored.name + "' has " +
                    std::to_string(tensor.elements()) + " elements, not " +
                    std::to_string(elements(spec.dims)));
    const Dtype stored_as = tensor.spec.dtype;
    tensor.spec = spec;
    tensor.spec.dtype = stored_as;  // values stay as they are stored, whatever the case's dtype is
    imported.inputs.add(std::move(tensor));
  }
  for (const TensorSpec& spec : output_specs(c)) {
    const std::string path = spec.role == Role::Gradient ? spec.name : "outputs/" + spec.name;
    if (has(stored, path)) imported.results[spec.name] = path;
  }
  return imported;
}

}  // namespace parity::kda
