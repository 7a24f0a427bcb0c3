#include "kernels/kda/problem.hpp"

#include <cmath>
#include <cstring>
#include <string>

#include "harness/failure.hpp"

namespace parity::kda_kernel {
namespace {

GateKind gate_kind(const std::string& name) {
  if (name == "softplus") return GateKind::Softplus;
  return name == "given" ? GateKind::Given : GateKind::Lower;
}

void lay_out(Shape& s, const std::vector<std::int64_t>& lengths) {
  s.N = static_cast<std::int64_t>(lengths.size());
  s.sequences.clear();
  s.chunks = 0;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    s.sequences.push_back({.first = first, .length = length, .first_chunk = s.chunks});
    s.chunks += (length + s.chunk - 1) / s.chunk;
    first += length;
  }
}

}  // namespace

Shape shape_of(const Case& c, const Options& options, std::int64_t default_chunk) {
  Shape s;
  s.B = c.sizes.get("B", 1);
  s.T = c.sizes["T"];
  s.H = c.sizes.get("H", 1);
  s.HV = c.sizes.get("HV", s.H);
  s.K = c.sizes["K"];
  s.V = c.sizes["V"];
  s.chunk = options.integer("chunk", default_chunk);
  s.bf16 = c.dtype == Dtype::BF16;
  const std::string gate = c.options.get("gate", "given"), beta = c.options.get("beta", "given");
  s.gate = gate_kind(gate);
  s.has_A = gate == "softplus" || gate == "lower";
  s.has_bias = c.options.flag("bias");
  s.lower = static_cast<float>(c.options.real("lb", -5));
  s.l2norm = c.options.flag("l2norm");
  s.sigmoid = beta != "given";
  s.beta_factor = beta == "neg" ? 2.0f : 1.0f;
  s.headwise = c.options.flag("headwise");
  s.v_first = c.options.flag("vfirst");
  s.scale = static_cast<float>(c.options.real("scale", 1 / std::sqrt(static_cast<double>(s.K))));

  const Size* T = c.sizes.find("T");
  std::vector<std::int64_t> lengths = T ? T->parts : std::vector<std::int64_t>{};
  s.packed = !lengths.empty();
  if (!s.packed) lengths.assign(static_cast<std::size_t>(s.B), s.T);
  if (c.options.flag("unused") && !lengths.empty()) lengths.pop_back();
  lay_out(s, lengths);
  return s;
}

std::string refuses(const Case& c, const Options& options) {
  const std::int64_t chunk = options.integer("chunk", 64);
  if (chunk != 16 && chunk != 32 && chunk != 64)
    return "chunk is 16, 32 or 64, not " + std::to_string(chunk);
  const std::string isa = options.get("isa", "");
  if (!isa.empty() && !find_micro(isa)) return "this processor has no " + isa;
  const std::string gate = c.options.get("gate", "given"), beta = c.options.get("beta", "given");
  if (gate != "given" && gate != "softplus" && gate != "lower" && gate != "lower_noA")
    return "unknown gate '" + gate + "'";
  if (beta != "given" && beta != "sigmoid" && beta != "neg") return "unknown beta '" + beta + "'";
  if (c.options.flag("headwise") && beta != "given")
    return "a headwise beta is given, not made of logits";
  return {};
}

std::vector<TensorSpec> saved_specs(const Shape& s) {
  return {{.name = "states",
           .role = Role::State,
           .dtype = Dtype::F32,
           .dims = {{"C", s.chunks}, {"HV", s.HV}, {"V", s.V}, {"K", s.K}}},
          {.name = "errors",
           .role = Role::Output,
           .dtype = Dtype::F32,
           .dims = {{"B", s.B}, {"T", s.T}, {"HV", s.HV}, {"V", s.V}}}};
}

Problem problem_of(const Launch& l, std::int64_t default_chunk) {
  Problem p{shape_of(l.problem, l.options, default_chunk)};
  const std::string isa = l.options.get("isa", "");
  p.micro = isa.empty() ? &best_micro() : find_micro(isa);
  if (!p.micro) throw Failure("kda: this processor has no " + isa);
  p.fault = parse_fault(l.fault);
  p.threads = l.threads;

  if (const auto* cu = l.in<std::int64_t>("cu_seqlens")) {
    std::vector<std::int64_t> lengths(p.sequences.size());
    for (std::size_t n = 0; n < lengths.size(); ++n) lengths[n] = cu[n + 1] - cu[n];
    // The map that an earlier batch of as many sequences and tokens left behind, had they been of
    // equal length.
    if (p.is(Fault::StaleChunkMap) && !lengths.empty()) {
      const std::int64_t total = p.used_tokens(), each = total / p.N;
      for (std::int64_t& length : lengths) length = each;
      lengths.back() = total - each * (p.N - 1);
    }
    lay_out(p, lengths);
  }

  p.q = l.in<void>("q");
  p.k = l.in<void>("k");
  p.v = l.in<void>("v");
  p.gate_in = l.in<void>(p.gate == GateKind::Given ? "g" : "g_raw");
  p.beta_in = l.in<void>(p.sigmoid ? "beta_logit" : "beta");
  p.A_log = p.has_A ? l.in<float>("A_log") : nullptr;
  p.dt_bias = p.has_bias ? l.in<float>("dt_bias") : nullptr;
  p.h0 = l.in<float>("initial_state");
  p.d_o = l.in<void>("cotangents/o");
  p.d_ht = l.in<float>("cotangents/final_state");

  p.o = l.out<void>("o");
  p.final_state = l.out<float>("final_state");
  p.g_tap = p.gate == GateKind::Given ? nullptr : l.out<float>("g");
  p.beta_tap = p.sigmoid ? l.out<float>("beta") : nullptr;
  p.dq = l.out<void>("grads/q");
  p.dk = l.out<void>("grads/k");
  p.dv = l.out<void>("grads/v");
  p.dg = l.out<float>("grads/g");
  p.d_raw = l.out<void>("grads/g_raw");
  p.dA = l.out<float>("grads/A_log");
  p.d_bias = l.out<float>("grads/dt_bias");
  p.d_beta = l.out<void>("grads/beta");
  p.d_beta_bf16 = p.bf16 && !p.sigmoid;
  p.d_logit = l.out<void>("grads/beta_logit");
  p.dh0 = l.out<float>("grads/initial_state");

  p.saved_states = l.save<float>("states");
  p.saved_errors = l.save<float>("errors");
  p.workspace = l.workspace.data();
  return p;
}

void load_state(const Problem& p, const float* tensor, std::int64_t n, std::int64_t hv,
                float* rows_KV, std::int64_t ld) {
  for (std::int64_t k = 0; k < p.K; ++k)
    std::memset(rows_KV + k * ld, 0, sizeof(float) * static_cast<std::size_t>(ld));
  if (!tensor) return;
  tensor += p.state_offset(n, hv);
  for (std::int64_t k = 0; k < p.K; ++k)
    for (std::int64_t v = 0; v < p.V; ++v)
      rows_KV[k * ld + v] = p.v_first ? tensor[v * p.K + k] : tensor[k * p.V + v];
}

void store_state(const Problem& p, const float* rows_KV, std::int64_t ld, std::int64_t n,
                 std::int64_t hv, float* tensor) {
  if (!tensor) return;
  tensor += p.state_offset(n, hv);
  for (std::int64_t k = 0; k < p.K; ++k)
    for (std::int64_t v = 0; v < p.V; ++v)
      (p.v_first ? tensor[v * p.K + k] : tensor[k * p.V + v]) = rows_KV[k * ld + v];
}

}  // namespace parity::kda_kernel
