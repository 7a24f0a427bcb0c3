// Kimi Delta Attention in chunks of 64 on Hopper's matrix units, bf16 in and out, forward and
// backward.
//
//   accumulate  f32: in matrix units, in the gates' sums and in the carried state
//   rounding    bf16: q and k times their decays (operands of the scores too), the inverse, the
//               scores, the state as an operand, beta (v - k S), v'; tf32 in the merge of the
//               inverse
//   grid        prepare: a block for each chunk and value head; carry: one for each sequence, value
//               head and 128 columns of v (64 where that would leave the device half empty)
//   alignment   any; K = 128 and V a multiple of 8 take the wide loads
//   backward    nothing is saved: prepare and carry again, which leave a trail (job.cuh); reverse
//               carries the state's gradient back, rounded to bf16 as an operand like v' and its
//               gradient; gradients makes all others of a chunk, in f32 within sub-chunks of 16
//   prefixes    an output depends on no later token: anchors lie at boundaries between the two
#include <algorithm>
#include <string>

#include "kernels/kda/hopper/finish.cuh"
#include "kernels/kda/hopper/reverse.cuh"
#include "kernels/kda/unused.cuh"

namespace parity::kda_kernel {
namespace {

using hopper::Defect;
using hopper::Job;

struct Named {
  Defect defect;
  FaultDef def;
};
const Named kFaults[] = {
    {Defect::UnscaledReads,
     {"P-K5", "", "what the output reads from the state lacks the factor on q"}},
    {Defect::ColumnBeta,
     {"P-K4", "", "the triangular system takes beta of its column, not of its row"}},
    {Defect::StrictMask, {"P-B2", "", "the causal mask is strict: a token does not see itself"}},
    {Defect::HalfMerge, {"P-merge", "", "the last merge of the inverse takes blocks of 16 alone"}},
    {Defect::MissingSync,
     {"P-race", "", "no barrier between a product and its readers in other warps"}},
    {Defect::WrongSwizzle,
     {"P-swizzle", "", "one operand is stored in the swizzle phase of the next row"}},
    {Defect::TailRows, {"F-4", "", "values behind a sequence's end are read into its last chunk"}},
    {Defect::NarrowState, {"P-K10", "", "the carried state is rounded to bf16"}},
    {Defect::TruncatedOutput, {"P-K11", "", "o is truncated to bf16, not rounded"}},
    {Defect::StateBeforeTail,
     {"F-37", "", "the final state is written before the last, partial chunk"}},
    {Defect::DroppedTail, {"P-B1", "", "the last partial block of 16 rows of o is not written"}},
    {Defect::OneRowTooMany, {"P-row", "", "one row of o behind a sequence's end is written"}},
    {Defect::UndecayedAdjoint, {"P-K6", "", "backward: dS passes a chunk undecayed"}},
    {Defect::BetaWithoutKeys, {"P-K9", "", "backward: dbeta lacks its key part"}},
    {Defect::LastHead, {"P-B4", "", "dq and dk hold the last value head of a group, not the sum"}},
    {Defect::NoLastGate, {"P-K7", "", "backward: dG lacks what decays the state"}},
    {Defect::NoDiagonal, {"P-B8", "", "backward: the diagonal of dAqk is dropped"}},
    {Defect::StaleGradients, {"P-race-backward", "", "no barrier before a buffer is read"}},
    {Defect::HeadOfGroup, {"F-11", "", "A_log and dt_bias are indexed by the query head"}},
};

Defect defect_of(std::string_view fault) {
  for (const Named& f : kFaults)
    if (f.def.id == fault) return f.defect;
  return Defect::None;
}

template <class Kernel>
void allow_shared(Kernel* kernel, std::size_t bytes) {
  device::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)),
                "shared memory");
}

template <class... Parameters, class... Arguments>
void run(const Launch& l, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
         std::size_t shared_bytes, const Arguments&... arguments) {
  if (blocks == 0) return;
  allow_shared(kernel, shared_bytes);
  device::launch(
      l, {static_cast<unsigned int>(blocks), static_cast<unsigned int>(threads), shared_bytes},
      kernel, arguments...);
}

// A state pass, in blocks of 64 columns where blocks of 128 would leave the device half empty.
template <class One, class Two, class... Arguments>
void run_pass(const Launch& l, One* one, Two* two, const Job& job, const Arguments&... arguments) {
  int device = 0, processors = 0;
  device::check(cudaGetDevice(&device), "the device");
  device::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                "the device's processors");
  const std::int64_t chains = std::int64_t{job.sequences} * job.HV;
  if (job.V <= hopper::kColumns || 2 * chains <= processors)
    run(l, one, chains * ((job.V + 63) / 64), hopper::kCarryThreads<1>,
        sizeof(hopper::CarryShared<1>), job, arguments...);
  else
    run(l, two, chains * ((job.V + 127) / 128), hopper::kCarryThreads<2>,
        sizeof(hopper::CarryShared<2>), job, arguments...);
}

Job job_of(const Launch& l, const Shape& s) {
  const bool raw = s.gate != GateKind::Given;
  return {.length = s.T,
          .sequences = static_cast<int>(s.N),
          .H = static_cast<int>(s.H),
          .HV = static_cast<int>(s.HV),
          .K = static_cast<int>(s.K),
          .V = static_cast<int>(s.V),
          .gate = s.gate,
          .l2norm = s.l2norm,
          .sigmoid = s.sigmoid,
          .v_first = s.v_first,
          .lower = s.lower,
          .beta_factor = s.beta_factor,
          .scale = s.scale,
          .q = l.in<std::uint16_t>("q"),
          .k = l.in<std::uint16_t>("k"),
          .v = l.in<std::uint16_t>("v"),
          .beta = l.in<std::uint16_t>(s.sigmoid ? "beta_logit" : "beta"),
          .gate_in = l.in<void>(raw ? "g_raw" : "g"),
          .A_log = s.has_A ? l.in<float>("A_log") : nullptr,
          .bias = s.has_bias ? l.in<float>("dt_bias") : nullptr,
          .h0 = l.in<float>("initial_state"),
          .cu = l.in<std::int64_t>("cu_seqlens"),
          .o = l.out<std::uint16_t>("o"),
          .final_state = l.out<float>("final_state"),
          .g_tap = raw ? l.out<float>("g") : nullptr,
          .beta_tap = s.sigmoid ? l.out<float>("beta") : nullptr,
          .images = l.workspace.data(),
          .trails = nullptr,
          .defect = defect_of(l.fault)};
}

void run_prepare(const Launch& l, const Shape& s, const Job& job) {
  // 16 tokens' decays stay in the range of a float, and nobody reads the gates.
  const bool anchored = s.gate == GateKind::Lower && s.lower >= -5.0F && job.g_tap == nullptr;
  const bool wide = s.K == hopper::kChannels;
  const auto kernel = anchored ? wide ? hopper::prepare<true, true> : hopper::prepare<false, true>
                      : wide ? hopper::prepare<true, false>
                               : hopper::prepare<false, false>;
  run(l, kernel, s.chunks * s.HV, hopper::kPrepareThreads, sizeof(hopper::PrepareShared), job);
}

void forward(const Launch& l) {
  const Shape s = shape_of(l.problem, l.options, hopper::kChunk);
  const Job job = job_of(l, s);
  run_prepare(l, s, job);
  run_pass(l, hopper::carry<1, false>, hopper::carry<2, false>, job);
  clear_unused(l, job.o, s, s.HV * s.V);
  clear_unused(l, job.g_tap, s, s.HV * s.K);
  clear_unused(l, job.beta_tap, s, s.HV);
}

// The parts of a backward's workspace, in bytes from its start.
struct Space {
  std::size_t trails, d_q, d_k, d_bias, d_A, end;
  explicit Space(const Shape& s) {
    const auto blocks = static_cast<std::size_t>(s.chunks * s.HV);
    const auto elements = static_cast<std::size_t>(s.tokens() * s.HV * s.K);
    std::size_t at = 0;
    const auto take = [&](std::size_t bytes) {
      at += (bytes + 255) / 256 * 256;
      return at;
    };
    trails = take(blocks * hopper::kImage);
    d_q = take(blocks * hopper::kTrail);
    d_k = take(elements * 4);
    d_bias = take(elements * 4);
    d_A = take(blocks * static_cast<std::size_t>(s.K) * 4);
    end = take(blocks * 4);
  }
};

void backward(const Launch& l) {
  const Shape s = shape_of(l.problem, l.options, hopper::kChunk);
  const bool raw = s.gate != GateKind::Given;
  const Space space(s);
  std::byte* base = l.workspace.data();
  const auto floats = [&](std::size_t at) { return reinterpret_cast<float*>(base + at); };
  Job job = job_of(l, s);
  job.trails = base + space.trails;
  auto *d_q = l.out<std::uint16_t>("grads/q"), *d_k = l.out<std::uint16_t>("grads/k");
  auto *d_A = l.out<float>("grads/A_log"), *d_bias = l.out<float>("grads/dt_bias");
  const hopper::Adjoint a{
      .d_o = l.in<std::uint16_t>("cotangents/o"),
      .d_state = l.in<float>("cotangents/final_state"),
      .d_v = l.out<std::uint16_t>("grads/v"),
      .d_q = floats(space.d_q),
      .d_k = floats(space.d_k),
      .d_g = raw ? nullptr : l.out<float>("grads/g"),
      .d_raw = l.out<std::uint16_t>("grads/g_raw"),
      .d_beta = l.out<std::uint16_t>(s.sigmoid ? "grads/beta_logit" : "grads/beta"),
      .d_beta_wide = s.sigmoid ? l.out<float>("grads/beta") : nullptr,
      .d_g_wide = raw ? l.out<float>("grads/g") : nullptr,
      .d_bias_parts = d_bias ? floats(space.d_bias) : nullptr,
      .d_A_parts = d_A ? floats(space.d_A) : nullptr,
      .d_h0 = l.out<float>("grads/initial_state")};
  if (s.V <= hopper::kColumns)  // one block of 64 columns: nobody writes the others
    device::fill_bytes(l, job.trails, 0,
                       static_cast<std::size_t>(s.chunks * s.HV) * hopper::kTrail);
  run_prepare(l, s, job);
  run_pass(l, hopper::carry<1, true>, hopper::carry<2, true>, job);
  run_pass(l, hopper::reverse<1>, hopper::reverse<2>, job, a);
  run(l, hopper::gradients, s.chunks * s.HV, hopper::kGradientThreads,
      sizeof(hopper::GradientShared), job, a);
  const std::int64_t rows = s.used_tokens() * s.H;
  run(l, hopper::sum_heads, (rows + 7) / 8, 256, 0, job, a, rows, d_q, d_k);
  const int chunks = static_cast<int>(s.chunks), heads = static_cast<int>(s.HV),
            channels = static_cast<int>(s.HV * s.K);
  if (d_bias)
    run(l, hopper::sum_chunks, (channels + 127) / 128, 128, 0,
        static_cast<const float*>(a.d_bias_parts), chunks, channels, d_bias);
  if (d_A)
    run(l, hopper::sum_chunks, (heads + 127) / 128, 128, 0, static_cast<const float*>(a.d_A_parts),
        chunks, heads, d_A);
  clear_unused(l, d_q, s, s.H * s.K);
  clear_unused(l, d_k, s, s.H * s.K);
  clear_unused(l, a.d_v, s, s.HV * s.V);
  clear_unused(l, a.d_g, s, s.HV * s.K);
  clear_unused(l, a.d_raw, s, s.HV * s.K);
  clear_unused(l, a.d_g_wide, s, s.HV * s.K);
  clear_unused(l, a.d_beta, s, s.HV);
  clear_unused(l, a.d_beta_wide, s, s.HV);
}

std::string refuses_on_device(const Case& c, const Options& options) {
  if (std::string why = refuses(c, options); !why.empty()) return why;
  const Shape s = shape_of(c, options, hopper::kChunk);
  if (s.K > hopper::kChannels || s.V > hopper::kMostColumns) return "K and V are at most 128";
  return s.headwise ? "a beta per column has an inverse per column" : "";
}

std::size_t workspace(const Case& c, const Options& options, Direction direction) {
  const Space space(shape_of(c, options, hopper::kChunk));
  return direction == Direction::Forward ? space.trails : space.end;
}

Contract contract() {
  Contract c{.name = "wgmma_bf16",
             .dtypes = {Dtype::BF16},
             .accumulate = Dtype::F32,
             .chunk = hopper::kChunk,
             .fidelity = Fidelity::Partial,
             .invariant = {"batch", "split", "causal"}};
  for (const char* where : {"products", "between", "aqk", "m", "kbg", "kg", "qg", "h", "residual",
                            "v_new", "dv_new", "dh", "adjoint"})
    c.roundings.push_back({.where = where, .to = Dtype::BF16});
  c.roundings.push_back({.where = "merge", .to = Dtype::TF32});
  return c;
}

std::vector<FaultDef> faults() {
  std::vector<FaultDef> list;
  for (const Named& f : kFaults) list.push_back(f.def);
  return list;
}

const Register kernel{
    KernelDef{.op = "kda",
              .name = "kda.cuda_wgmma_bf16",
              .what = "chunks of 64 on matrix units: an image of each, then the state in registers",
              .needs = "sm_90a",
              .contract = contract(),
              .refuses = refuses_on_device,
              .workspace = workspace,
              .forward = forward,
              .backward = backward,
              .faults = faults()}};

}  // namespace
}  // namespace parity::kda_kernel
