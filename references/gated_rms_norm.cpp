// gated_rms_norm: the output norm of a KDA layer, by rows of V.
//   in   x_RV gate_RV weight_V             R = B T HV rows
//   out  y_RV = x rstd w sigmoid(gate)     rstd = 1/sqrt(mean_v x^2 + eps)      (option eps, 1e-5)
//   backward, s = sigmoid(gate), h = x rstd, n = dy w s:
//        dgate = dy h w s (1 - s);   dw = sum_rows dy s h;   dx = rstd (n - h mean_v(n h))
//   option recompute=1: the backward also returns y again, for the gradient of the linear map
//   behind it
// Companions count f32 roundoffs: a sum of n terms costs n, its root half; a sigmoid 4, and 1 - s 5
// roundoffs of s or 1.
#include "references/blocks/unit_op.hpp"

namespace parity::unit {
namespace {

constexpr double kUsualEps = 1e-5;

Dtype wide(const Case& c) { return c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32; }

std::vector<Dim> dims(const Case& c) {
  return {{"B", c.sizes.get("B", 1)},
          {"T", c.sizes["T"]},
          {"HV", c.sizes.get("HV", 1)},
          {"V", c.sizes["V"]}};
}

std::vector<TensorSpec> inputs(const Case& c) {
  return {{.name = "x", .role = Role::Input, .dtype = c.dtype, .dims = dims(c)},
          {.name = "gate", .role = Role::Input, .dtype = c.dtype, .dims = dims(c)},
          {.name = "weight", .role = Role::Input, .dtype = wide(c), .dims = {dims(c).back()}},
          {.name = "cotangents/y", .role = Role::Cotangent, .dtype = c.dtype, .dims = dims(c)}};
}

std::vector<TensorSpec> outputs(const Case& c) {
  std::vector<TensorSpec> specs = {
      {.name = "y", .role = Role::Output, .dtype = c.dtype, .dims = dims(c)},
      {.name = "grads/x", .role = Role::Gradient, .dtype = c.dtype, .dims = dims(c)},
      {.name = "grads/gate", .role = Role::Gradient, .dtype = c.dtype, .dims = dims(c)},
      {.name = "grads/weight",
       .role = Role::Gradient,
       .dtype = wide(c),
       .dims = {dims(c).back()},
       .parameter = "weight"}};
  if (c.options.flag("recompute"))
    specs.push_back(
        {.name = "recomputed/y", .role = Role::Gradient, .dtype = c.dtype, .dims = dims(c)});
  return specs;
}

std::string refuses(const Case& c) {
  for (const auto& [name, value] : c.options.map())
    if (name != "eps" && name != "recompute") return "gated_rms_norm has no option '" + name + "'";
  if (!(c.options.real("eps", kUsualEps) >= 0)) return "eps is negative";
  return c.sizes["V"] < 1 ? "a row needs an element" : "";
}

template <class T>
T reciprocal_rms(std::span<const T> x_V, T eps, Vary& vary, std::string_view fault) {
  std::vector<T> squares_V;
  for (const T x : x_V) squares_V.push_back(vary(x * x));
  const T sum = vary.sum(squares_V);
  const T n = static_cast<T>(x_V.size());
  if (fault == "A-NR04") return 1 / (std::sqrt(sum / n) + eps);
  if (fault == "P-eps-sum") return 1 / std::sqrt((sum + eps) / n);
  return 1 / std::sqrt(sum / n + eps);
}

template <class T>
T gate_of(T logit, std::string_view fault) {
  const T s = sigmoid(logit);
  return fault == "P-gate-swish" ? logit * s : s;
}

template <class T>
Results<T> evaluate(const Case& c, const Tensors& tensors, Vary vary, std::string_view fault) {
  const auto V = static_cast<std::size_t>(c.sizes["V"]);
  const T eps = static_cast<T>(c.options.real("eps", kUsualEps));
  const std::vector<T> x = widened<T>(tensors, "x");
  const std::vector<T> gate = widened<T>(tensors, "gate");
  const std::vector<T> weight_V = widened<T>(tensors, "weight");
  const std::vector<T> dy = widened<T>(tensors, "cotangents/y");
  const std::size_t rows = x.size() / V;
  std::vector<T> y(x.size()), again(x.size()), dx(x.size()), dgate(x.size()), dweight_V(V);
  std::vector<T> n_V(V), product_V(V);
  std::vector<std::vector<T>> dweight_terms_VR(V, std::vector<T>(rows));
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t first = r * V;
    const T rstd = vary(reciprocal_rms(std::span(x).subspan(first, V), eps, vary, fault));
    for (std::size_t v = 0; v < V; ++v) {
      const std::size_t i = first + v;
      const T plain = gate_of(gate[i], fault);
      const T s = vary(plain);
      const T h = vary(x[i] * rstd);
      y[i] = h * weight_V[v] * s;
      again[i] = fault == "A-NR01" ? h * weight_V[v] : y[i];
      n_V[v] = vary(dy[i] * weight_V[v] * s);
      product_V[v] = n_V[v] * h;
      dgate[i] = fault == "P-dgate-slope"
                     ? dy[i] * h * weight_V[v] * s
                     : dy[i] * h * weight_V[v] * s * vary(complement(gate[i], plain));
      dweight_terms_VR[v][r] = dy[i] * s * h;
    }
    const T mean = vary(vary.sum(product_V)) / static_cast<T>(V);
    for (std::size_t v = 0; v < V; ++v)
      dx[first + v] = rstd * vary(n_V[v] - vary(x[first + v] * rstd) * mean);
  }
  for (std::size_t v = 0; v < V; ++v) {
    if (fault == "A-NR03") {  // bf16 running sum
      double sum = 0;
      for (const T term : dweight_terms_VR[v])
        sum = round_to(Dtype::BF16, sum + static_cast<double>(term));
      dweight_V[v] = static_cast<T>(sum);
    } else {
      dweight_V[v] = vary.sum(dweight_terms_VR[v]);
    }
  }
  return {{"y", std::move(y)},
          {"grads/x", std::move(dx)},
          {"grads/gate", std::move(dgate)},
          {"grads/weight", std::move(dweight_V)},
          {"recomputed/y", std::move(again)}};
}

Results<double> companions(const Case& c, const Tensors& tensors) {
  const auto V = static_cast<std::size_t>(c.sizes["V"]);
  const std::vector<double> x = widened<double>(tensors, "x");
  const std::vector<double> gate = widened<double>(tensors, "gate");
  const std::vector<double> weight_V = widened<double>(tensors, "weight");
  const std::vector<double> dy = widened<double>(tensors, "cotangents/y");
  const double n = static_cast<double>(V);
  const double r_units = 0.5 * (n + 2) + 2;
  const std::size_t rows = x.size() / V;
  std::vector<double> y(x.size()), dx(x.size()), dgate(x.size()), dweight_V(V);
  Vary plain;
  for (std::size_t first = 0; first < x.size(); first += V) {
    const double rstd = reciprocal_rms(std::span<const double>(x).subspan(first, V),
                                       c.options.real("eps", kUsualEps), plain, "");
    double mean = 0;
    for (std::size_t i = first; i < first + V; ++i)
      mean += std::abs(dy[i] * weight_V[i - first] * sigmoid_size(gate[i]) * x[i] * rstd) / n;
    for (std::size_t i = first; i < first + V; ++i) {
      const double s = sigmoid_size(gate[i]);
      const double h = std::abs(x[i]) * rstd;
      const double w = std::abs(weight_V[i - first]);
      y[i] = h * w * s * (r_units + 7);
      dgate[i] = std::abs(dy[i]) * h * w * s *
                 (sigmoid(-gate[i]) * (r_units + 9) + complement_units(c, sigmoid(-gate[i])));
      dweight_V[i - first] +=
          std::abs(dy[i]) * s * h * (r_units + 7 + sum_units(static_cast<double>(rows)));
      dx[i] = rstd * (std::abs(dy[i]) * w * s * (r_units + 8) + h * mean * (n + 3 * r_units + 13));
    }
  }
  return {{"y", y},
          {"grads/x", std::move(dx)},
          {"grads/gate", std::move(dgate)},
          {"grads/weight", std::move(dweight_V)},
          {"recomputed/y", std::move(y)}};
}

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  return expected_of(outputs(c), evaluate<double>(c, tensors, {}, ""), companions(c, tensors),
                     gradients);
}

Evaluation base(const BaseRequest& r) {
  return evaluation_of(outputs(r.problem), evaluate<float>(r.problem, r.inputs, Vary(r), r.fault),
                       r.gradients);
}

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "gated_rms_norm";
  c.dtype = stored.read("inputs/x").spec.dtype;
  const std::vector<std::int64_t> extents = shape(stored, "inputs/x", 4);
  c.sizes = Sizes{
      {"B", extents[0], {}}, {"T", extents[1], {}}, {"HV", extents[2], {}}, {"V", extents[3], {}}};
  set_option(stored, c.options, "eps", "o_norm_eps", kUsualEps);
  if (const std::string act = attribute(stored, "activation", "sigmoid"); act != "sigmoid") {
    imported.unsupported = "activation '" + act + "'";
    return imported;
  }
  import_tensors(stored, registry().op_or_throw("gated_rms_norm"), imported);
  return imported;
}

const Register op{OpDef{
    .name = "gated_rms_norm",
    .what = "y = x / sqrt(mean x^2 + eps) * w * sigmoid(gate)",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"transformers models.kimi_linear KimiLinearRMSNormGated",
                "flash-linear-attention fla/modules/fused_norm_gate.py"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .import = import_case,
    .faults = {{"A-NR01", "F-25", "the backward returns the recomputed output before its gate"},
               {"A-NR03", "", "weight gradient summed over rows in bf16"},
               {"A-NR04", "F-24", "eps outside the root"},
               {"P-eps-sum", "", "eps added to the sum of squares, not to their mean"},
               {"P-gate-swish", "", "gate * sigmoid(gate) in place of sigmoid(gate)"},
               {"P-dgate-slope", "", "gradient of the gate without 1 - s"},
               {.id = "A-NR02",
                .what = "variance includes padded columns",
                .unsupported = "an RMS has no mean, so padded zeros add nothing"},
               {.id = "A-NR06",
                .what = "output aliases the incoming gradient",
                .unsupported = "launches never alias buffers"}},
}};

}  // namespace
}  // namespace parity::unit
