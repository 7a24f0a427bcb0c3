// Variants (request.variation > 0): shuffled orders of summation, and every rounding drawn anew
// (points.hpp). The chunk is the contract's in all of them.
#include "references/kda/base.hpp"

#include <algorithm>

#include "references/kda/chunk_faults.hpp"

namespace parity::kda {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

bool needs_inverse(Fault fault) {
  return fault == Fault::TruncatedNeumann || fault == Fault::UpperTriangle ||
         fault == Fault::TailDecayOverflow || fault == Fault::NarrowTransition;
}

Engine engine_of(const Setup& s, const BaseRequest& request) {
  Engine e{.setup = s, .points = points_of(request.contract), .fault = parse_fault(request.fault)};
  e.chunk = at(request.contract.chunk);
  if (e.has(Fault::ChunkHardCoded) && e.chunk > 0) e.chunk = 32;
  if (e.has(Fault::ErrorBeforeDecay)) e.chunk = 0;
  const std::pair<Fault, Point Points::*> narrowed[] = {{Fault::MergeNarrow, &Points::merge},
                                                        {Fault::NarrowGateSum, &Points::g},
                                                        {Fault::NarrowState, &Points::state},
                                                        {Fault::BiasNarrow, &Points::dbias}};
  for (const auto& [fault, point] : narrowed)
    if (e.has(fault)) e.points.*point = {.to = Dtype::BF16};
  if (e.has(Fault::OutputTruncated)) e.points.o.mode = Rounding::TowardZero;
  const bool stores_inverse =
      e.points.m.on() || e.points.w.on() || e.points.u.on() || e.points.merge.on();
  e.substitute = !stores_inverse && !needs_inverse(e.fault);
  // 0.6.0's anchor of a diagonal block: half a sub-chunk of the strongest decay below its first row
  // (kda.md §4.2).
  e.diagonal_anchor = 7.5F * kLog2e * static_cast<float>(s.lower != 0 ? -s.lower : 2);
  if (request.variation > 0) {
    const Noise draw{request.seed, true};
    const auto variation = static_cast<std::uint64_t>(request.variation);
    const std::uint64_t seed =
        (std::uint64_t{draw.of(2 * variation)} << 32) + draw.of(2 * variation + 1);
    e.noise = {seed, true};
    e.orders = Orders(seed + (seed == 0));
    e.chained = e.substitute && variation % 2 == 1;
  }
  return e;
}

// Every chain, forward and backward; d is of what the recurrence sees.
void run_all(Run& run, const Inputs& in, bool gradients) {
  Engine& e = run.e;
  const Setup& s = e.setup;
  run.o.resize(in.v.size());
  run.final_state.resize(at(s.N * s.HV * s.K * s.V));
  if (gradients) {
    run.d.q.resize(in.q.size());
    run.d.k.resize(in.k.size());
    run.d.v.resize(in.v.size());
    run.d.g.resize(run.x.g.size());
    run.d.beta.resize(in.beta.size());
    run.d.h0.resize(in.h0.size());
  }
  const auto each_chain = [&](auto&& chain) {
    for (std::int64_t n = 0; n < s.N; ++n)
      for (std::int64_t hv = 0; hv < s.HV; ++hv) chain(n, hv);
  };
  if (e.has(Fault::ScalarStateGradient) && gradients && s.dht && e.chunk > 0) {
    each_chain([&](std::int64_t n, std::int64_t hv) { run_chunked(run, n, hv, false); });
    for (std::size_t i = 0; i < run.x.d_ht.size(); ++i)
      e.scalar += run.final_state[i] * run.x.d_ht[i];
  }
  each_chain([&](std::int64_t n, std::int64_t hv) {
    if (e.chunk > 0)
      run_chunked(run, n, hv, gradients);
    else
      run_recurrent(run, n, hv, gradients);
  });
  if (e.fault != Fault::None) damage_results(run);
}

}  // namespace

Evaluation base(const BaseRequest& request) {
  const Setup s = setup_of(request.problem);
  const Inputs in = widen_inputs(s, request.inputs);
  const bool gradients = request.gradients && s.gradients;
  Engine e = engine_of(s, request);
  Narrow narrow;
  const Wide x = activate_base(e, in, narrow);
  const bool columns = s.headwise && e.chunk > 0;
  const Setup inner_setup = columns ? by_column(s) : s;
  const Wide inner_x = columns ? by_column(s, x) : x;
  Engine inner = engine_of(inner_setup, request);
  inner.open = std::ranges::all_of(x.g, [](float g) { return g == 0; });
  Run run{.e = inner, .x = inner_x};
  run_all(run, in, gradients);
  if (columns) join_columns(s, run);
  if (gradients) finish_base(e, narrow, x, run.d);

  Evaluation evaluation;
  for (const TensorSpec& spec : output_specs(request.problem)) {
    const auto put = [&](std::string_view name, const Floats32& value, bool state = false) {
      if (spec.name != name) return;
      Values out{.name = spec.name, .value = Real(value.begin(), value.end()), .bits = {}};
      if (state && s.v_first) out.value = swap_state(s, out.value, true);
      const Rounding mode = name == "o" ? e.points.o.mode : Rounding::NearestEven;
      for (double& element : out.value) element = round_to(spec.dtype, element, mode);
      evaluation.push_back(std::move(out));
    };
    put("o", run.o);
    put("final_state", run.final_state, true);
    put("g", x.g);
    put("beta", x.beta);
    if (!gradients) continue;
    put("grads/q", run.d.q);
    put("grads/k", run.d.k);
    put("grads/v", run.d.v);
    put("grads/g", run.d.g);
    put("grads/beta", run.d.beta);
    put("grads/initial_state", run.d.h0, true);
    put("grads/g_raw", run.d.g_raw);
    put("grads/A_log", run.d.A_log);
    put("grads/dt_bias", run.d.dt_bias);
    put("grads/beta_logit", run.d.beta_logit);
  }
  return evaluation;
}

}  // namespace parity::kda
