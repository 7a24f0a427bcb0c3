// Kimi Delta Attention token by token on the CPU, f32 and bf16, forward: the decode kernel.
//
//   accumulate  f32; rounding only of the outputs, the state stays f32 from token to token
//   decays      exp(g_t), to one ulp; the decayed state is rounded before it is read and written
//   order       sums over channels in channel order, one chain of fused multiply-adds a value
//   column threads     over sequences and value heads
// That is the base's recurrence but for the fused multiply-adds, and errs as it does (rms error in
// f32 over the full lane: 0.97 of the base's in the median, 1.26 at most). Fidelity is partial all
// the same: harmless variants of that base, which round once more where it rounds, err up to twice
// as much, so a faithful 1.15 would refuse legal kernels.
#include <cstring>

#include "kernels/kda/fault_paths.hpp"
#include "kernels/kda/forward.hpp"
#include "kernels/kda/parallel.hpp"

namespace parity {
namespace {

using namespace kda_kernel;

constexpr std::int64_t kBlock = 16;  // tokens whose operands are loaded together

class Decoder {
 public:
  explicit Decoder(const Problem& problem)
      : p(problem),
        m(*problem.micro),
        scratch_(Chunk::floats(problem) + pad(problem.K) * leading(problem.V) +
                 (2 * kBlock + 1) * leading(problem.V)),
        c(problem, scratch_) {
    state_ = scratch_.take(c.Kp * c.ldv);
    v_ = scratch_.take(kBlock * c.ldv);
    o_ = scratch_.take(kBlock * c.ldv);
  }

  void operator()(std::int64_t item) {
    const std::int64_t n = item / p.HV, hv = item % p.HV;
    std::memset(state_, 0, sizeof(float) * static_cast<std::size_t>(c.Kp * c.ldv));
    load_state(p, p.h0, n, hv, state_, c.ldv);
    const std::int64_t blocks = chunk_count(p, n);
    for (std::int64_t i = 0; i < blocks; ++i) step(place_of(p, n, hv, i));
    if (p.is(Fault::EmptySequenceStateUnwritten) && blocks == 0) return;
    store_state(p, state_, c.ldv, n, hv, p.final_state);
  }

 private:
  void step(const Place& at) {
    c.load(at);
    m.load(c.rows(p.v, p.bf16, p.V), at.rows, p.V, v_, c.ldv);
    const std::int64_t beta_row = p.headwise ? c.ldv : 1;
    for (std::int64_t i = 0; i < at.rows; ++i) {
      const Token token{.state = state_,
                        .ld = c.ldv,
                        .K = p.is(Fault::PaddedLanesUnmasked) ? c.Kp : p.K,
                        .cols = c.Vp,
                        .q = c.q + i * c.ldk,
                        .k = c.k + i * c.ldk,
                        .a = c.a + i * c.ldk,
                        .v = v_ + i * c.ldv,
                        .beta = c.beta + i * beta_row,
                        .headwise = p.headwise,
                        .o = o_ + i * c.ldv};
      const bool uncorrected = p.is(Fault::NoGateSkipsDelta) && p.gate == GateKind::Given;
      if (uncorrected || p.is(Fault::GateAfterError))
        spoil_token(token, uncorrected);
      else
        m.token(token);
      if (p.is(Fault::StateKeptInBf16)) round_rows_to_bf16(state_, c.ldv, p.K, c.Vp);
    }
    m.store(o_, c.ldv, at.rows, p.V, c.rows(p.o, p.bf16, p.V));
    if (p.g_tap) m.store(c.g, c.ldk, at.rows, p.K, c.rows(p.g_tap, false, p.K));
    if (p.beta_tap)
      for (std::int64_t i = 0; i < at.rows; ++i)
        p.beta_tap[(at.token + i) * p.HV + at.hv] = c.beta[i];
  }

  // The value is written as it is, or the error is taken from the state before its decay.
  void spoil_token(const Token& t, bool uncorrected) const {
    for (std::int64_t v = 0; v < t.cols; ++v) {
      float r = 0, o = 0;
      for (std::int64_t d = 0; d < t.K; ++d) r += t.k[d] * t.state[d * t.ld + v];
      const float u = uncorrected ? t.v[v] : t.beta[t.headwise ? v : 0] * (t.v[v] - r);
      for (std::int64_t d = 0; d < t.K; ++d) {
        float& s = t.state[d * t.ld + v];
        s = t.a[d] * s + t.k[d] * u;
        o += t.q[d] * s;
      }
      t.o[v] = o;
    }
  }

  const Problem& p;
  const Micro& m;
  Scratch scratch_;
  Chunk c;
  float *state_, *v_, *o_;
};

Options blocked(const Options& options) {
  Options o = options;
  o.set("chunk", std::to_string(kBlock));
  return o;
}

void forward(const Launch& launch) {
  const Options options = blocked(launch.options);
  const Launch block_launch{.problem = launch.problem,
                            .options = options,
                            .inputs = launch.inputs,
                            .outputs = launch.outputs,
                            .threads = launch.threads,
                            .fault = launch.fault};
  const Problem p = problem_of(block_launch, kBlock);
  for_each_item(p.threads, p.N * p.HV, [&] { return Decoder(p); });
  clear_unused(p, p.o, p.bf16, p.HV * p.V);
  clear_unused(p, p.g_tap, false, p.HV * p.K);
  clear_unused(p, p.beta_tap, false, p.HV);
}

std::string refuses_here(const Case& c, const Options& options) {
  if (options.map().contains("chunk")) return "a recurrent kernel has no chunk";
  return refuses(c, options);
}

KernelDef recurrent(std::string_view name, Dtype dtype) {
  return {
      .op = "kda",
      .name = name,
      .what = "token by token, f32 state and sums in channel order; forward only, for decoding",
      .contract = {.name = dtype == Dtype::F32 ? "f32" : "f32, bf16 in and out",
                   .dtypes = {dtype},
                   .accumulate = Dtype::F32,
                   .fidelity = Fidelity::Partial,  // above
                   .invariant = {"threads", "batch", "split", "causal"}},
      .variants = {{}, {.options = {{"isa", "portable"}}}},
      .refuses = refuses_here,
      .forward = forward,
      .faults = dtype == Dtype::F32 ? faults_of(KernelKind::Recurrent) : std::vector<FaultDef>{}};
}

const Register f32{recurrent("kda.recurrent_f32", Dtype::F32)};
const Register bf16{recurrent("kda.recurrent_bf16", Dtype::BF16)};

}  // namespace
}  // namespace parity
