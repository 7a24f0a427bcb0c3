// Kimi Delta Attention in chunks of 64 on Hopper's matrix units, bf16 in and out, forward.
//
//   accumulate  f32: in matrix units, in the gates' sums and in the carried state
//   rounding    bf16: q and k times their decays (operands of the scores too), the inverse, the
//               scores, the state as an operand, beta (v - k S), v'; tf32 in the merge of the
//               inverse
//   grid        prepare: a block for each chunk and value head; carry: one for each sequence, value
//               head and 128 columns of v (64 where that would leave the device half empty)
//   alignment   any; K = 128 and V a multiple of 8 take the wide loads
//   prefixes    an output depends on no later token: anchors lie at boundaries between the two
#include <algorithm>
#include <string>

#include "kernels/kda/hopper/carry.cuh"
#include "kernels/kda/hopper/prepare.cuh"
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

template <int kGroups>
void run_carry(const Launch& l, const Job& job) {
  const std::int64_t columns = kGroups * hopper::kColumns;
  const std::int64_t blocks =
      std::int64_t{job.sequences} * job.HV * ((job.V + columns - 1) / columns);
  const std::size_t bytes = sizeof(hopper::CarryShared<kGroups>);
  allow_shared(hopper::carry<kGroups>, bytes);
  device::launch(l, {static_cast<unsigned int>(blocks), hopper::kCarryThreads<kGroups>, bytes},
                 hopper::carry<kGroups>, job);
}

void forward(const Launch& l) {
  const Shape s = shape_of(l.problem, l.options, hopper::kChunk);
  const bool raw = s.gate != GateKind::Given;
  const Job job{.length = s.T,
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
                .defect = defect_of(l.fault)};
  if (s.chunks > 0) {
    // 16 tokens' decays stay in the range of a float, and nobody reads the gates.
    const bool anchored =
        s.gate == GateKind::Lower && s.lower >= -5.0F && l.out<float>("g") == nullptr;
    const bool wide = s.K == hopper::kChannels;
    const auto kernel = anchored ? wide ? hopper::prepare<true, true> : hopper::prepare<false, true>
                        : wide ? hopper::prepare<true, false>
                                 : hopper::prepare<false, false>;
    const std::size_t bytes = sizeof(hopper::PrepareShared);
    allow_shared(kernel, bytes);
    device::launch(l, {static_cast<unsigned int>(s.chunks * s.HV), hopper::kPrepareThreads, bytes},
                   kernel, job);
  }
  if (s.N > 0) {
    int device = 0, processors = 0;
    device::check(cudaGetDevice(&device), "the device");
    device::check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                  "the device's processors");
    const bool narrow = s.V <= hopper::kColumns || 2 * s.N * s.HV <= processors;
    narrow ? run_carry<1>(l, job) : run_carry<2>(l, job);
  }
  clear_unused(l, job.o, s, s.HV * s.V);
  clear_unused(l, job.g_tap, s, s.HV * s.K);
  clear_unused(l, job.beta_tap, s, s.HV);
}

std::string refuses_on_device(const Case& c, const Options& options) {
  if (std::string why = refuses(c, options); !why.empty()) return why;
  const Shape s = shape_of(c, options, hopper::kChunk);
  if (s.K > hopper::kChannels) return "K is at most 128";
  return s.headwise ? "a beta per column has an inverse per column" : "";
}

std::size_t workspace(const Case& c, const Options& options, Direction) {
  const Shape s = shape_of(c, options, hopper::kChunk);
  return static_cast<std::size_t>(s.chunks * s.HV) * hopper::kImage;
}

Contract contract() {
  Contract c{.name = "wgmma_bf16",
             .dtypes = {Dtype::BF16},
             .accumulate = Dtype::F32,
             .chunk = hopper::kChunk,
             .fidelity = Fidelity::Partial,
             .invariant = {"batch", "split", "causal"}};
  for (const char* where :
       {"products", "between", "aqk", "m", "kbg", "kg", "qg", "h", "residual", "v_new"})
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
              .faults = faults()}};

}  // namespace
}  // namespace parity::kda_kernel
