// kda_gate: the log decay of KDA from its raw projection.
//   in   g_raw [B,T,HV,K];  A_log [HV];  dt_bias [HV,K] (option bias=1)
//   out  g [B,T,HV,K], natural log;  z = g_raw + dt_bias
//        gate=softplus   g = -exp(A) softplus(z), softplus(z) = z above 20
//        gate=lower      g = L sigmoid(exp(A) z)                 (option lb, -5)
//        gate=lower_noA  g = L sigmoid(z)
//   backward  softplus  dx = -exp(A) sigma(z) dg, dA = sum dg g;   lower  dx = dg L s (1 - s)
//   exp(A), dA = sum dx z;
//             ddt_bias = sum over tokens of dx
// Companions: f32 roundoffs. exp(A) is off by 2 + |A|, a sigmoid by 2, 1 - s by one of 1; softplus
// may be log(1 + exp z), which rounds to one of 1 (as the released kernels do).
#include "references/blocks/unit_op.hpp"

namespace parity::unit {
namespace {

constexpr double kLinear = 20;
constexpr double kUsualBound = -5;

Dtype wide(const Case& c) { return c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32; }
std::string gate_name(const Case& c) { return c.options.get("gate", "softplus"); }
bool has_A(const Case& c) { return gate_name(c) != "lower_noA"; }
bool has_bias(const Case& c) { return c.options.flag("bias"); }

std::vector<Dim> dims(const Case& c) {
  return {
      {"B", c.sizes.get("B", 1)}, {"T", c.sizes["T"]}, {"HV", c.sizes["HV"]}, {"K", c.sizes["K"]}};
}

std::vector<TensorSpec> inputs(const Case& c) {
  const std::vector<Dim> d = dims(c);
  std::vector<TensorSpec> specs = {
      {.name = "g_raw", .role = Role::Input, .dtype = c.dtype, .dims = d}};
  if (has_A(c))
    specs.push_back({.name = "A_log", .role = Role::Input, .dtype = wide(c), .dims = {d[2]}});
  if (has_bias(c))
    specs.push_back(
        {.name = "dt_bias", .role = Role::Input, .dtype = wide(c), .dims = {d[2], d[3]}});
  specs.push_back({.name = "cotangents/g", .role = Role::Cotangent, .dtype = wide(c), .dims = d});
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const std::vector<Dim> d = dims(c);
  std::vector<TensorSpec> specs = {
      {.name = "g", .role = Role::Output, .dtype = wide(c), .dims = d},
      {.name = "grads/g_raw", .role = Role::Gradient, .dtype = c.dtype, .dims = d}};
  if (has_A(c))
    specs.push_back({.name = "grads/A_log",
                     .role = Role::Gradient,
                     .dtype = wide(c),
                     .dims = {d[2]},
                     .parameter = "A_log"});
  if (has_bias(c))
    specs.push_back({.name = "grads/dt_bias",
                     .role = Role::Gradient,
                     .dtype = wide(c),
                     .dims = {d[2], d[3]},
                     .parameter = "dt_bias"});
  return specs;
}

std::string refuses(const Case& c) {
  for (const auto& [name, value] : c.options.map())
    if (name != "gate" && name != "lb" && name != "bias")
      return "kda_gate has no option '" + name + "'";
  const std::string gate = gate_name(c);
  if (gate != "softplus" && gate != "lower" && gate != "lower_noA") return "no gate '" + gate + "'";
  return c.options.real("lb", kUsualBound) < 0 ? "" : "the lower bound must be negative";
}

// One element: z, the gate, and what its gradient needs.
template <class T>
struct Point {
  T z = 0, g = 0;
  T slope = 0;  // dg/dx
};

template <class T>
T softplus(T z, std::string_view fault) {
  const T linear = static_cast<T>(fault == "P-threshold" ? 10 : kLinear);
  if (fault == "P-no-threshold") return std::log(1 + std::exp(z));
  return z > linear ? z : std::log1p(std::exp(z));
}

template <class T>
Point<T> point(const Case& c, T x, T bias, T exp_A, Vary& vary, std::string_view fault) {
  Point<T> p;
  p.z = vary(x + bias);
  if (gate_name(c) == "softplus") {
    p.g = -exp_A * vary(softplus(p.z, fault));
    p.slope = -exp_A * (p.z > static_cast<T>(kLinear) ? T{1} : vary(sigmoid(p.z)));
  } else {
    const T L = static_cast<T>(c.options.real("lb", kUsualBound));
    const T plain = sigmoid(exp_A * p.z);
    const T s = vary(plain);
    p.g = L * s;
    p.slope = fault == "P-gate-chain" ? L * s * (1 - plain)
                                      : L * s * vary(complement(exp_A * p.z, plain)) * exp_A;
  }
  return p;
}

template <class T>
Results<T> evaluate(const Case& c, const Tensors& tensors, Vary vary, std::string_view fault) {
  const std::vector<T> x = widened<T>(tensors, "g_raw");
  const std::vector<T> dg = widened<T>(tensors, "cotangents/g");
  const std::vector<T> A = has_A(c) ? widened<T>(tensors, "A_log") : std::vector<T>{};
  const std::vector<T> bias = has_bias(c) ? widened<T>(tensors, "dt_bias") : std::vector<T>{};
  const auto K = static_cast<std::size_t>(c.sizes["K"]);
  const std::size_t width = static_cast<std::size_t>(c.sizes["HV"]) * K;
  const std::size_t tokens = width == 0 ? 0 : x.size() / width;
  std::vector<T> g(x.size()), dx(x.size()), dA(A.size()), dbias(width);
  std::vector<T> terms(tokens), head_terms;
  for (std::size_t channel = 0; channel < width; ++channel) {
    const std::size_t head = channel / K;
    const std::size_t head_of_A = fault == "F-11" ? head / 2 : head;
    const T exp_A = has_A(c) ? vary(std::exp(A[head_of_A])) : T{1};
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::size_t i = t * width + channel;
      const Point<T> p = point(c, x[i], has_bias(c) ? bias[channel] : T{0}, exp_A, vary, fault);
      g[i] = p.g;
      dx[i] = vary(dg[i] * p.slope);
      head_terms.push_back(gate_name(c) == "softplus" ? dg[i] * p.g : dx[i] * p.z);
      terms[t] = fault == "F-38" ? static_cast<T>(round_to(Dtype::BF16, static_cast<double>(dx[i])))
                                 : dx[i];
    }
    dbias[channel] = vary.sum(terms);
    if (has_A(c) && channel % K == K - 1) {
      dA[head] = vary.sum(head_terms);
      head_terms.clear();
    }
  }
  return {{"g", std::move(g)},
          {"grads/g_raw", std::move(dx)},
          {"grads/A_log", std::move(dA)},
          {"grads/dt_bias", std::move(dbias)}};
}

// Roundoffs of the argument that reach an exponential: the sum x + b, and the product with log2 e,
// since kernels evaluate exp(z) as 2^(z log2 e) with the product in f32 (kda.md §2.1: ex2.approx).
constexpr double kArgumentUnits = 2;

Results<double> companions(const Case& c, const Tensors& tensors, const Results<double>& value) {
  const std::vector<double>& g = value.find("g")->second;
  const std::vector<double>& dx = value.find("grads/g_raw")->second;
  const std::vector<double> x = widened<double>(tensors, "g_raw");
  const std::vector<double> dg = widened<double>(tensors, "cotangents/g");
  const std::vector<double> A =
      has_A(c) ? widened<double>(tensors, "A_log") : std::vector<double>{};
  const std::vector<double> bias =
      has_bias(c) ? widened<double>(tensors, "dt_bias") : std::vector<double>{};
  const auto K = static_cast<std::size_t>(c.sizes["K"]);
  const std::size_t width = static_cast<std::size_t>(c.sizes["HV"]) * K;
  const double tokens = width == 0 ? 0 : static_cast<double>(x.size() / width);
  const double head_terms = sum_units(tokens * static_cast<double>(K));
  const double L = c.options.real("lb", kUsualBound);
  std::vector<double> m_g(x.size()), m_dx(x.size()), m_A(A.size()), m_bias(width);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t channel = i % width;
    const std::size_t head = channel / K;
    const double a = has_A(c) ? A[head] : 0;
    const double exp_A = std::exp(a);
    const double z = x[i] + (has_bias(c) ? bias[channel] : 0);
    const double a_units = 2 + std::abs(a);
    double term = 0;  // companion of a term of dA
    if (gate_name(c) == "softplus") {
      const double slope = z > kLinear ? 1 : sigmoid(z);
      m_g[i] = exp_A * (slope * std::abs(z) * kArgumentUnits + 1) + std::abs(g[i]) * (a_units + 3);
      m_dx[i] = std::abs(dx[i]) * (a_units + 4 + std::abs(z) * (1 - slope) * kArgumentUnits) +
                std::abs(dg[i]) * exp_A * kFlushed;
      term = std::abs(dg[i]) * m_g[i] + std::abs(dg[i] * g[i]) * (head_terms + 1);
    } else {
      const double y = exp_A * z;
      const double s = sigmoid_size(y);
      const double y_units = (has_A(c) ? a_units + 1 : 0) + kArgumentUnits;
      m_g[i] = -L * s * ((1 - s) * std::abs(y) * y_units + 5);
      m_dx[i] = std::abs(dx[i]) * (a_units + 6 + std::abs(y) * y_units) +
                std::abs(dg[i] * L * exp_A) * s * complement_units(c, sigmoid(-y));
      term = std::abs(z) * m_dx[i] + std::abs(dx[i] * z) * (head_terms + 2);
    }
    if (has_A(c)) m_A[head] += term;
    m_bias[channel] += m_dx[i] + std::abs(dx[i]) * sum_units(tokens);
  }
  return {{"g", std::move(m_g)},
          {"grads/g_raw", std::move(m_dx)},
          {"grads/A_log", std::move(m_A)},
          {"grads/dt_bias", std::move(m_bias)}};
}

Expected reference(const Case& c, const Tensors& tensors, bool gradients) {
  Results<double> value = evaluate<double>(c, tensors, {}, "");
  Results<double> scale = companions(c, tensors, value);
  return expected_of(outputs(c), std::move(value), std::move(scale), gradients);
}

Evaluation base(const BaseRequest& r) {
  return evaluation_of(outputs(r.problem), evaluate<float>(r.problem, r.inputs, Vary(r), r.fault),
                       r.gradients);
}

ImportedCase import_case(const StoredCase& stored) {
  ImportedCase imported;
  Case& c = imported.problem;
  c.op = "kda_gate";
  c.dtype = stored.read("inputs/g_raw").spec.dtype;
  const std::vector<std::int64_t> extents = shape(stored, "inputs/g_raw", 4);
  c.sizes = Sizes{
      {"B", extents[0], {}}, {"T", extents[1], {}}, {"HV", extents[2], {}}, {"K", extents[3], {}}};
  const std::string variant = attribute(stored, "gate_variant");
  const std::string threshold = attribute(stored, "softplus_threshold", "20");
  if (variant != "softplus" && variant != "lower_bound" && variant != "lower_bound_no_A")
    imported.unsupported = "gate_variant '" + variant + "'";
  else if (std::stod(threshold) != kLinear)
    imported.unsupported = "softplus threshold " + threshold;
  if (!imported.unsupported.empty()) return imported;
  c.options.set("gate", variant == "softplus"      ? "softplus"
                        : variant == "lower_bound" ? "lower"
                                                   : "lower_noA");
  if (has(stored, "inputs/dt_bias")) c.options.set("bias", "1");
  set_option(stored, c.options, "lb", "lower_bound", kUsualBound);
  import_tensors(stored, registry().op_or_throw("kda_gate"), imported);
  return imported;
}

const Register op{OpDef{
    .name = "kda_gate",
    .what = "g = -exp(A) softplus(x + b), or L sigmoid(exp(A) (x + b))",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"flash-linear-attention fla/ops/kda/gate.py", "Kimi Linear (arXiv 2510.26692)"},
    .inputs = inputs,
    .outputs = outputs,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .import = import_case,
    .faults = {{"F-38", "", "dt_bias gradient summed after the cast to bf16"},
               {"F-11", "", "A_log indexed by the query head: two value heads share one"},
               {"P-threshold", "", "softplus linear above 10 in place of 20"},
               {"P-no-threshold", "", "log(1 + exp z) without a threshold: inf above 88"},
               {"P-gate-chain", "", "gradient of the lower-bound gate without exp(A)"}},
}};

}  // namespace
}  // namespace parity::unit
