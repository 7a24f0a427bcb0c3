#include "kernels/kda/recurrence_for_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace parity::kda_kernel::testing {
namespace {

struct Setup {
  std::int64_t B, T, H, HV, K, V, N;
  std::vector<std::int64_t> starts;
  std::string gate, beta;
  bool headwise, l2norm, h0, dht, v_first, bias, packed, has_A;
  double scale, lb;
};

Setup setup_of(const Case& c) {
  Setup s{};
  s.B = c.sizes.get("B", 1), s.T = c.sizes["T"], s.H = c.sizes.get("H", 1),
  s.HV = c.sizes.get("HV", s.H);
  s.K = c.sizes["K"], s.V = c.sizes["V"];
  std::vector<std::int64_t> parts = c.sizes.find("T")->parts;
  s.packed = !parts.empty();
  if (!s.packed) parts.assign(static_cast<std::size_t>(s.B), s.T);
  if (c.options.flag("unused")) parts.pop_back();
  s.N = static_cast<std::int64_t>(parts.size());
  s.starts.assign(parts.size() + 1, 0);
  std::partial_sum(parts.begin(), parts.end(), s.starts.begin() + 1);
  s.gate = c.options.get("gate", "given"), s.beta = c.options.get("beta", "given");
  s.headwise = c.options.flag("headwise"), s.l2norm = c.options.flag("l2norm");
  s.h0 = c.options.flag("h0"), s.dht = c.options.flag("dht"), s.v_first = c.options.flag("vfirst");
  s.bias = c.options.flag("bias"), s.has_A = s.gate == "softplus" || s.gate == "lower";
  s.scale = c.options.real("scale", 1 / std::sqrt(static_cast<double>(s.K))),
  s.lb = c.options.real("lb", -5);
  return s;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Random {
  std::uint64_t state;
  double uniform() {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
};

// One sequence and value head; gradients of the recurrence are added into the arrays of the whole
// batch.
struct Head {
  const Setup& s;
  Tables &in, &out;
  std::int64_t n, hv;

  std::size_t at(std::int64_t t, std::int64_t heads, std::int64_t h, std::int64_t width) const {
    return static_cast<std::size_t>((t * heads + h) * width);
  }
  std::size_t state_at(std::int64_t k, std::int64_t v) const {
    const std::int64_t base = (n * s.HV + hv) * s.K * s.V;
    return static_cast<std::size_t>(base + (s.v_first ? v * s.K + k : k * s.V + v));
  }

  void run() {
    const auto K = static_cast<std::size_t>(s.K), V = static_cast<std::size_t>(s.V);
    const std::int64_t first = s.starts[static_cast<std::size_t>(n)],
                       last = s.starts[static_cast<std::size_t>(n) + 1], h = hv / (s.HV / s.H);
    Real S(K * V);
    for (std::size_t k = 0; s.h0 && k < K; ++k)
      for (std::size_t v = 0; v < V; ++v)
        S[k * V + v] = in["initial_state"]
                         [state_at(static_cast<std::int64_t>(k), static_cast<std::int64_t>(v))];
    std::vector<Real> decayed, after, errors;
    for (std::int64_t t = first; t < last; ++t) {
      const double *q = &in["q"][at(t, s.H, h, s.K)], *k = &in["k"][at(t, s.H, h, s.K)];
      const double *g = &in["g"][at(t, s.HV, hv, s.K)], *x = &in["v"][at(t, s.HV, hv, s.V)];
      Real e(x, x + V);
      for (std::size_t i = 0; i < K; ++i)
        for (std::size_t j = 0; j < V; ++j)
          S[i * V + j] *= std::exp(g[i]), e[j] -= S[i * V + j] * k[i];
      decayed.push_back(S);
      errors.push_back(e);
      for (std::size_t i = 0; i < K; ++i)
        for (std::size_t j = 0; j < V; ++j) {
          S[i * V + j] += k[i] * beta(t, j) * e[j];
          out["o"][at(t, s.HV, hv, s.V) + j] += s.scale * S[i * V + j] * q[i];
        }
      after.push_back(S);
    }
    for (std::size_t k = 0; k < K; ++k)
      for (std::size_t v = 0; v < V; ++v)
        out["final_state"][state_at(static_cast<std::int64_t>(k), static_cast<std::int64_t>(v))] =
            S[k * V + v];

    Real L(K * V);
    for (std::size_t k = 0; s.dht && k < K; ++k)
      for (std::size_t v = 0; v < V; ++v)
        L[k * V + v] = in["cotangents/final_state"]
                         [state_at(static_cast<std::int64_t>(k), static_cast<std::int64_t>(v))];
    for (std::int64_t t = last - 1; t >= first; --t) {
      const auto i_t = static_cast<std::size_t>(t - first);
      const double *q = &in["q"][at(t, s.H, h, s.K)], *k = &in["k"][at(t, s.H, h, s.K)],
                   *g = &in["g"][at(t, s.HV, hv, s.K)];
      const double* d_o = &in["cotangents/o"][at(t, s.HV, hv, s.V)];
      double *dq = &out["grads/q"][at(t, s.H, h, s.K)], *dk = &out["grads/k"][at(t, s.H, h, s.K)],
             *dg = &out["grads/g"][at(t, s.HV, hv, s.K)];
      Real du(V);
      for (std::size_t i = 0; i < K; ++i)
        for (std::size_t j = 0; j < V; ++j) {
          L[i * V + j] += s.scale * q[i] * d_o[j];
          dq[i] += s.scale * after[i_t][i * V + j] * d_o[j];
          du[j] += L[i * V + j] * k[i];
        }
      for (std::size_t j = 0; j < V; ++j) {
        out["grads/beta"][s.headwise ? at(t, s.HV, hv, s.V) + j : at(t, s.HV, hv, 1)] +=
            errors[i_t][j] * du[j];
        out["grads/v"][at(t, s.HV, hv, s.V) + j] = beta(t, j) * du[j];
      }
      for (std::size_t i = 0; i < K; ++i)
        for (std::size_t j = 0; j < V; ++j) {
          const double de = beta(t, j) * du[j], D = L[i * V + j] - k[i] * de;
          dk[i] += L[i * V + j] * beta(t, j) * errors[i_t][j] - decayed[i_t][i * V + j] * de;
          dg[i] += D * decayed[i_t][i * V + j];
          L[i * V + j] = std::exp(g[i]) * D;
        }
    }
    for (std::size_t k = 0; s.h0 && k < K; ++k)
      for (std::size_t v = 0; v < V; ++v)
        out["grads/initial_state"]
           [state_at(static_cast<std::int64_t>(k), static_cast<std::int64_t>(v))] = L[k * V + v];
  }
  double beta(std::int64_t t, std::size_t j) const {
    return in["beta"][s.headwise ? at(t, s.HV, hv, s.V) + j : at(t, s.HV, hv, 1)];
  }
};

void normalise(Real& x, std::size_t K) {
  for (std::size_t r = 0; r < x.size(); r += K) {
    double sum = 1e-6;
    for (std::size_t d = 0; d < K; ++d) sum += x[r + d] * x[r + d];
    for (std::size_t d = 0; d < K; ++d) x[r + d] /= std::sqrt(sum);
  }
}

void normalise_grad(const Real& raw, Real& dy, std::size_t K) {
  for (std::size_t r = 0; r < raw.size(); r += K) {
    double sum = 1e-6, dot = 0;
    for (std::size_t d = 0; d < K; ++d)
      sum += raw[r + d] * raw[r + d], dot += raw[r + d] * dy[r + d];
    for (std::size_t d = 0; d < K; ++d)
      dy[r + d] = dy[r + d] / std::sqrt(sum) - raw[r + d] * dot / (sum * std::sqrt(sum));
  }
}

// z, coefficient and head of element i of a [B,T,HV,K] tensor.
struct GatePlace {
  double z, coefficient;
  std::size_t head, channel;
};
GatePlace gate_place(const Setup& s, const Tables& in, std::size_t i) {
  const auto K = static_cast<std::size_t>(s.K), head = i / K % static_cast<std::size_t>(s.HV),
             channel = i % K;
  const double z = in.at("g_raw")[i] + (s.bias ? in.at("dt_bias")[head * K + channel] : 0);
  return {z, s.has_A ? std::exp(in.at("A_log")[head]) : 1, head, channel};
}

double gate_value(const Setup& s, const GatePlace& p) {
  if (s.gate != "softplus") return s.lb * sigmoid(p.coefficient * p.z);
  return -p.coefficient * (p.z > 20 ? p.z : std::log1p(std::exp(p.z)));
}

}  // namespace

Case make_case(std::string_view sizes, Dtype dtype, std::string_view options) {
  Case c;
  c.op = "kda", c.sizes = Sizes::parse(sizes), c.dtype = dtype, c.options = Options::parse(options);
  return c;
}

std::vector<TensorSpec> input_specs(const Case& c) {
  const Setup s = setup_of(c);
  const Dim b{"B", s.B}, t{"T", s.T}, h{"H", s.H}, hv{"HV", s.HV}, k{"K", s.K}, v{"V", s.V},
      n{"N", s.N};
  const std::vector<Dim> state =
      s.v_first ? std::vector<Dim>{n, hv, v, k} : std::vector<Dim>{n, hv, k, v};
  std::vector<TensorSpec> list;
  const auto add = [&](const char* name, Dtype dtype, std::vector<Dim> dims) {
    list.push_back({.name = name, .dtype = dtype, .dims = std::move(dims)});
  };
  add("q", c.dtype, {b, t, h, k});
  add("k", c.dtype, {b, t, h, k});
  add("v", c.dtype, {b, t, hv, v});
  add(s.gate == "given" ? "g" : "g_raw", s.gate == "given" ? Dtype::F32 : c.dtype, {b, t, hv, k});
  if (s.has_A) add("A_log", Dtype::F32, {hv});
  if (s.bias) add("dt_bias", Dtype::F32, {hv, k});
  add(s.beta == "given" ? "beta" : "beta_logit", c.dtype,
      s.headwise ? std::vector<Dim>{b, t, hv, v} : std::vector<Dim>{b, t, hv});
  if (s.h0) add("initial_state", Dtype::F32, state);
  if (s.packed) add("cu_seqlens", Dtype::I64, {{"N", s.N + 1}});
  add("cotangents/o", c.dtype, {b, t, hv, v});
  if (s.dht) add("cotangents/final_state", Dtype::F32, state);
  return list;
}

std::vector<TensorSpec> output_specs(const Case& c, Direction direction) {
  const Setup s = setup_of(c);
  std::vector<TensorSpec> list;
  const std::vector<TensorSpec> inputs = input_specs(c);
  const auto find = [&](std::string_view name) {
    return *std::find_if(inputs.begin(), inputs.end(),
                         [&](const TensorSpec& x) { return x.name == name; });
  };
  if (direction == Direction::Forward) {
    TensorSpec o = find("v"), state = o;
    o.name = "o";
    state.name = "final_state", state.dtype = Dtype::F32;
    state.dims = {
        {"N", s.N}, {"HV", s.HV}, {"K", s.v_first ? s.V : s.K}, {"V", s.v_first ? s.K : s.V}};
    return {o, state};
  }
  for (const TensorSpec& in : inputs) {
    if (in.name == "cu_seqlens" || in.name.starts_with("cotangents")) continue;
    list.push_back(in);
    list.back().name = "grads/" + in.name;
  }
  return list;
}

Tensors make_inputs(const Case& c, const InputFill& fill, std::uint64_t seed) {
  const Setup s = setup_of(c);
  Tensors tensors;
  Random random{seed * 7919 + 1};
  Real common(static_cast<std::size_t>(s.K));
  for (double& x : common) x = random.normal();
  for (const TensorSpec& spec : input_specs(c)) {
    Real x(static_cast<std::size_t>(elements(spec.dims)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double normal = random.normal(), uniform = random.uniform();
      if (spec.name == "k")
        x[i] = fill.correlation * common[i % common.size()] + (1 - fill.correlation) * normal;
      else if (spec.name == "g")
        x[i] = random.uniform() < fill.closed
                   ? -1000
                   : fill.gate * (1 + fill.gate_spread * (2 * uniform - 1));
      else if (spec.name == "beta")
        x[i] = uniform;
      else if (spec.name == "A_log")
        x[i] = uniform;
      else if (spec.name == "cu_seqlens")
        x[i] = static_cast<double>(s.starts[i]);
      else
        x[i] = normal;
    }
    if (spec.name == "k" && !s.l2norm) normalise(x, common.size());
    if (spec.name == "q" && !s.l2norm) normalise(x, common.size());
    tensors.add(make_tensor(spec, x));
  }
  return tensors;
}

Tables model(const Case& c, const Tensors& inputs) {
  const Setup s = setup_of(c);
  Tables in, out;
  for (const Tensor& t : inputs.list()) in[t.spec.name] = t.widened();
  for (const Direction direction : {Direction::Forward, Direction::Backward})
    for (const TensorSpec& spec : output_specs(c, direction))
      out[spec.name].assign(static_cast<std::size_t>(elements(spec.dims)), 0);
  const Real raw_q = in["q"], raw_k = in["k"];
  const auto K = static_cast<std::size_t>(s.K);
  if (s.l2norm) normalise(in["q"], K), normalise(in["k"], K);
  const double factor = s.beta == "neg" ? 2 : 1;
  if (s.beta != "given") {
    for (const double x : in["beta_logit"]) in["beta"].push_back(factor * sigmoid(x));
    out["grads/beta"].assign(in["beta"].size(), 0);
  }
  if (s.gate != "given") {
    for (std::size_t i = 0; i < in["g_raw"].size(); ++i)
      in["g"].push_back(gate_value(s, gate_place(s, in, i)));
    out["grads/g"].assign(in["g"].size(), 0);
  }
  for (std::int64_t n = 0; n < s.N; ++n)
    for (std::int64_t hv = 0; hv < s.HV; ++hv) Head{s, in, out, n, hv}.run();
  if (s.l2norm) normalise_grad(raw_q, out["grads/q"], K), normalise_grad(raw_k, out["grads/k"], K);
  if (s.beta != "given")
    for (std::size_t i = 0; i < in["beta"].size(); ++i) {
      const double x = sigmoid(in["beta_logit"][i]);
      out["grads/beta_logit"][i] = out["grads/beta"][i] * factor * x * (1 - x);
    }
  for (std::size_t i = 0; s.gate != "given" && i < in["g"].size(); ++i) {
    const GatePlace p = gate_place(s, in, i);
    const double dg = out["grads/g"][i];
    double dx, d_coefficient;
    if (s.gate == "softplus") {
      dx = -p.coefficient * sigmoid(p.z) * dg, d_coefficient = dg * in["g"][i];
    } else {
      const double x = sigmoid(p.coefficient * p.z);
      dx = dg * s.lb * x * (1 - x) * p.coefficient, d_coefficient = dx * p.z;
    }
    out["grads/g_raw"][i] = dx;
    if (s.has_A) out["grads/A_log"][p.head] += d_coefficient;
    if (s.bias) out["grads/dt_bias"][p.head * K + p.channel] += dx;
  }
  return out;
}

Tensors launch(const KernelDef& kernel, const Case& c, const Tensors& inputs, const Run& run) {
  Tensors results;
  const auto poisoned = [](const TensorSpec& spec) {
    Tensor t = make_tensor(spec);
    std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0xff});
    return t;
  };
  const auto views = [](std::vector<Tensor>& tensors) {
    std::vector<TensorView> list;
    for (Tensor& t : tensors) list.push_back({.spec = &t.spec, .data = t.bytes.data()});
    return list;
  };
  std::vector<Tensor> in = inputs.list(), saved;
  for (const TensorSpec& spec :
       kernel.saved&& run.gradients ? kernel.saved(c, run.options) : std::vector<TensorSpec>{})
    saved.push_back(poisoned(spec));
  const std::vector<TensorView> in_views = views(in), saved_views = views(saved);
  for (const Direction direction : {Direction::Forward, Direction::Backward}) {
    if (direction == Direction::Backward && !run.gradients) continue;
    std::vector<Tensor> out;
    for (const TensorSpec& spec : output_specs(c, direction)) out.push_back(poisoned(spec));
    std::vector<std::byte> workspace(
        kernel.workspace ? kernel.workspace(c, run.options, direction) : 0, std::byte{0xff});
    const std::vector<TensorView> out_views = views(out);
    (direction == Direction::Forward ? kernel.forward : kernel.backward)({.problem = c,
                                                                          .options = run.options,
                                                                          .inputs = in_views,
                                                                          .outputs = out_views,
                                                                          .saved = saved_views,
                                                                          .workspace = workspace,
                                                                          .threads = run.threads,
                                                                          .fault = run.fault});
    for (Tensor& t : out) results.add(std::move(t));
  }
  return results;
}

double distance(const Tensor& got, const Real& want) {
  const Real x = got.widened();
  double worst = 0, square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(x[i] - want[i]));
    square += want[i] * want[i];
  }
  const double rms = std::sqrt(square / static_cast<double>(std::max<std::size_t>(x.size(), 1)));
  return rms > 0 ? worst / rms : worst;
}

}  // namespace parity::kda_kernel::testing
