#include "references/kda/problem.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "harness/failure.hpp"

namespace parity::kda {
namespace {

std::string gate_name(const Case& c) { return c.options.get("gate", "given"); }
std::string beta_name(const Case& c) { return c.options.get("beta", "given"); }

std::vector<std::int64_t> parts_of(const Case& c) {
  const Size* T = c.sizes.find("T");
  return T ? T->parts : std::vector<std::int64_t>{};
}

Dtype narrow_type(const Case& c) { return c.dtype; }
Dtype wide_type(const Case& c) { return c.dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32; }

struct Shapes {
  std::vector<Dim> qk, v, g, beta, head, bias, state, cu;
};

Shapes shapes_of(const Setup& s) {
  const Dim b{"B", s.B}, t{"T", s.T}, h{"H", s.H}, hv{"HV", s.HV}, k{"K", s.K}, v{"V", s.V},
      n{"N", s.N};
  Shapes r{.qk = {b, t, h, k},
           .v = {b, t, hv, v},
           .g = {b, t, hv, k},
           .beta = {b, t, hv},
           .head = {hv},
           .bias = {hv, k},
           .state = {n, hv, k, v},
           .cu = {Dim{"N", s.N + 1}}};
  if (s.headwise) r.beta.push_back(v);
  if (s.v_first) std::swap(r.state[2], r.state[3]);
  return r;
}

// A gate of -n ln 2 in the storage format is what a kernel gets for a decay of 2^-n; -n ln 2 in
// fp64 gives that decay in fp64.
void mean_halvings(Real& g) {
  for (double& x : g) {
    const double n = std::nearbyint(x / std::numbers::ln2);
    if (std::abs(x - n * std::numbers::ln2) > 0x1p-24 * std::abs(x))
      throw Failure("kda: with halvings=1 gates are multiples of ln 2");
    x = n * std::numbers::ln2;
  }
}

}  // namespace

std::string refuses(const Case& c) {
  static const std::vector<std::string_view> known = {
      "gate", "lb",  "bias",   "l2norm", "beta", "headwise", "scale",
      "h0",   "dht", "vfirst", "grad",   "taps", "unused",   "halvings"};
  for (const auto& [key, value] : c.options.map())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return "kda has no option '" + key + "'";
  const std::string gate = gate_name(c), beta = beta_name(c);
  const bool in_kernel = gate != "given";
  if (in_kernel && gate != "softplus" && gate != "lower" && gate != "lower_noA")
    return "no gate '" + gate + "': given, softplus, lower or lower_noA";
  if (beta != "given" && beta != "sigmoid" && beta != "neg")
    return "no beta '" + beta + "': given, sigmoid or neg";
  if (c.options.flag("bias") && !in_kernel) return "bias needs a gate in the kernel";
  if (c.options.map().contains("lb") && gate != "lower" && gate != "lower_noA")
    return "lb needs gate=lower or gate=lower_noA";
  if (c.options.flag("halvings") && in_kernel) return "halvings need gates that are given";
  const double lb = c.options.real("lb", -5);
  if (!(lb < 0)) return "the lower bound must be negative";
  if (c.options.flag("headwise") && beta != "given")
    return "a headwise beta is given, not made of logits";
  if (c.dtype != Dtype::F64 && c.dtype != Dtype::F32 && c.dtype != Dtype::BF16 &&
      c.dtype != Dtype::F16)
    return "kda takes f64, f32, bf16 and f16";
  const std::int64_t H = c.sizes.get("H", 1), HV = c.sizes.get("HV", H);
  if (H < 1 || HV < 1 || HV % H != 0) return "HV must be a multiple of H";
  if (c.sizes["K"] < 1 || c.sizes["V"] < 1 || c.sizes["T"] < 0) return "sizes must be positive";
  const auto parts = parts_of(c);
  if (!parts.empty() && c.sizes.get("B", 1) != 1) return "packed sequences need B = 1";
  if (c.options.flag("unused") && parts.size() < 2)
    return "unused needs a packed T of at least two parts";
  if (!c.options.integer("grad", 1) && c.options.flag("dht")) return "grad=0 has no cotangents";
  return {};
}

Setup setup_of(const Case& c) {
  Setup s;
  s.B = c.sizes.get("B", 1);
  s.T = c.sizes["T"];
  s.H = c.sizes.get("H", 1);
  s.HV = c.sizes.get("HV", s.H);
  s.K = c.sizes["K"];
  s.V = c.sizes["V"];
  auto parts = parts_of(c);
  s.packed = !parts.empty();
  if (!s.packed) parts.assign(static_cast<std::size_t>(s.B), s.T);
  if (c.options.flag("unused")) parts.pop_back();
  s.N = static_cast<std::int64_t>(parts.size());
  s.starts.assign(parts.size() + 1, 0);
  std::partial_sum(parts.begin(), parts.end(), s.starts.begin() + 1);
  const std::string gate = gate_name(c), beta = beta_name(c);
  s.gate = gate == "given" ? Gate::Given : gate == "softplus" ? Gate::Softplus : Gate::Lower;
  s.lower = s.gate == Gate::Lower ? c.options.real("lb", -5) : 0;
  s.has_A = gate == "softplus" || gate == "lower";
  s.has_bias = c.options.flag("bias");
  s.l2norm = c.options.flag("l2norm");
  s.sigmoid = beta != "given";
  s.beta_scale = beta == "neg" ? 2 : 1;
  s.headwise = c.options.flag("headwise");
  s.scale = c.options.real("scale", std::pow(static_cast<double>(s.K), -0.5));
  s.h0 = c.options.flag("h0");
  s.dht = c.options.flag("dht");
  s.v_first = c.options.flag("vfirst");
  s.gradients = c.options.integer("grad", 1) != 0;
  s.taps = c.options.flag("taps");
  s.halvings = c.options.flag("halvings");
  return s;
}

std::vector<TensorSpec> input_specs(const Case& c) {
  const Setup s = setup_of(c);
  const Shapes d = shapes_of(s);
  const Dtype narrow = narrow_type(c), wide = wide_type(c);
  std::vector<TensorSpec> list;
  const auto add = [&](const char* name, Role role, Dtype dtype, const std::vector<Dim>& dims) {
    list.push_back({.name = name, .role = role, .dtype = dtype, .dims = dims});
  };
  add("q", Role::Input, narrow, d.qk);
  add("k", Role::Input, narrow, d.qk);
  add("v", Role::Input, narrow, d.v);
  if (s.gate == Gate::Given)
    add("g", Role::Input, wide, d.g);
  else
    add("g_raw", Role::Input, narrow, d.g);
  if (s.has_A) add("A_log", Role::Input, wide, d.head);
  if (s.has_bias) add("dt_bias", Role::Input, wide, d.bias);
  add(s.sigmoid ? "beta_logit" : "beta", Role::Input, narrow, d.beta);
  if (s.h0) add("initial_state", Role::Input, wide, d.state);
  if (s.packed) add("cu_seqlens", Role::Input, Dtype::I64, d.cu);
  if (s.gradients) add("cotangents/o", Role::Cotangent, narrow, d.v);
  if (s.dht) add("cotangents/final_state", Role::Cotangent, wide, d.state);
  return list;
}

std::vector<TensorSpec> output_specs(const Case& c) {
  const Setup s = setup_of(c);
  const Shapes d = shapes_of(s);
  const Dtype narrow = narrow_type(c), wide = wide_type(c);
  std::vector<TensorSpec> list;
  const auto add = [&](const char* name, Role role, Dtype dtype, const std::vector<Dim>& dims,
                       const char* parameter = "") {
    list.push_back(
        {.name = name, .role = role, .dtype = dtype, .dims = dims, .parameter = parameter});
  };
  add("o", Role::Output, narrow, d.v);
  add("final_state", Role::State, wide, d.state);
  if (s.taps && s.gate != Gate::Given) add("g", Role::Output, wide, d.g);
  if (s.taps && s.sigmoid) add("beta", Role::Output, wide, d.beta);
  if (!s.gradients) return list;
  add("grads/q", Role::Gradient, narrow, d.qk);
  add("grads/k", Role::Gradient, narrow, d.qk);
  add("grads/v", Role::Gradient, narrow, d.v);
  if (s.gate == Gate::Given || s.taps) add("grads/g", Role::Gradient, wide, d.g);
  if (s.gate != Gate::Given) add("grads/g_raw", Role::Gradient, narrow, d.g);
  if (s.has_A) add("grads/A_log", Role::Gradient, wide, d.head, "A_log");
  if (s.has_bias) add("grads/dt_bias", Role::Gradient, wide, d.bias, "dt_bias");
  if (!s.sigmoid || s.taps) add("grads/beta", Role::Gradient, s.sigmoid ? wide : narrow, d.beta);
  if (s.sigmoid) add("grads/beta_logit", Role::Gradient, narrow, d.beta);
  if (s.h0) add("grads/initial_state", Role::Gradient, wide, d.state);
  return list;
}

bool derive(const Case& c, Tensor& tensor) {
  if (tensor.spec.name != "cu_seqlens") return false;
  const Setup s = setup_of(c);
  std::ranges::copy(s.starts, tensor.as<std::int64_t>().begin());
  return true;
}

Real swap_state(const Setup& s, const Real& state, bool to_v_first) {
  const auto K = static_cast<std::size_t>(s.K), V = static_cast<std::size_t>(s.V),
             blocks = static_cast<std::size_t>(s.N * s.HV);
  Real out(state.size());
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t k = 0; k < K; ++k)
      for (std::size_t v = 0; v < V; ++v) {
        const std::size_t k_first = b * K * V + k * V + v, v_first = b * K * V + v * K + k;
        if (to_v_first)
          out[v_first] = state[k_first];
        else
          out[k_first] = state[v_first];
      }
  return out;
}

Inputs widen_inputs(const Setup& s, const Tensors& tensors) {
  const auto state = [&](std::string_view name) {
    Real x = tensors.at(name).widened();
    return s.v_first ? swap_state(s, x, false) : x;
  };
  Inputs in;
  in.q = tensors.at("q").widened();
  in.k = tensors.at("k").widened();
  in.v = tensors.at("v").widened();
  in.g = tensors.at(s.gate == Gate::Given ? "g" : "g_raw").widened();
  if (s.halvings) mean_halvings(in.g);
  in.beta = tensors.at(s.sigmoid ? "beta_logit" : "beta").widened();
  if (s.has_A) in.A_log = tensors.at("A_log").widened();
  if (s.has_bias) in.dt_bias = tensors.at("dt_bias").widened();
  if (s.h0) in.h0 = state("initial_state");
  if (s.gradients) in.d_o = tensors.at("cotangents/o").widened();
  if (s.dht) in.d_ht = state("cotangents/final_state");
  if (s.packed) {
    // The file's own offsets must say what the sizes say: a disagreement would be judged on the
    // wrong sequences.
    const std::span<const std::int64_t> cu = tensors.at("cu_seqlens").as<std::int64_t>();
    if (!std::equal(cu.begin(), cu.end(), s.starts.begin(), s.starts.end()))
      throw Failure("cu_seqlens disagrees with the sizes of the case");
  }
  const auto sized = [](const Real& x, std::int64_t n, const char* name) {
    if (static_cast<std::int64_t>(x.size()) != n)
      throw Failure(std::string("kda: input '") + name + "' has " + std::to_string(x.size()) +
                    " elements, not " + std::to_string(n));
  };
  sized(in.q, s.rows() * s.H * s.K, "q");
  sized(in.k, s.rows() * s.H * s.K, "k");
  sized(in.v, s.rows() * s.HV * s.V, "v");
  sized(in.g, s.rows() * s.HV * s.K, "g");
  sized(in.beta, s.rows() * s.HV * s.beta_width(), "beta");
  return in;
}

}  // namespace parity::kda
