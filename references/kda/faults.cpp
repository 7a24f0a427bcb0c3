#include "references/kda/faults.hpp"

#include "harness/failure.hpp"

namespace parity::kda {
namespace {

struct Entry {
  Fault fault = Fault::None;
  FaultDef def = {};
};

constexpr std::string_view kRecurrence =
    "the recurrence has no such part; another op carries this fault";
constexpr std::string_view kNoMemory =
    "the base is evaluated from values: it has no memory, threads or launches of its own; the "
    "kernels' mutants show it";

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {Fault::TailDecayOverflow,
       {.id = "A-KG05",
        .alias = "F-1",
        .what =
            "rows beyond a ragged chunk take part with gate 0: exp(-G) overflows, 0 * inf is NaN"}},
      {Fault::TailSolveGarbage,
       {.id = "F-2",
        .what = "the substitution runs on to a multiple of 16 rows and reads what nobody wrote"}},
      {Fault::TailGateSum,
       {.id = "F-3",
        .what = "backward: exp(G_last - G) is not masked on padded rows, so the next sequence "
                "enters dG"}},
      {Fault::TailLastRow,
       {.id = "F-4",
        .what = "the final state takes the cumulative gate of row C-1 of a partial chunk, where it "
                "is 0"}},
      {Fault::PaddedChannels,
       {.id = "A-KG07",
        .alias = "F-6",
        .what = "gates of padded channels are read past the row: 0 * exp(large) is NaN"}},
      {Fault::EmptySequence,
       {.id = "A-RC01",
        .alias = "F-9",
        .what = "the final state of an empty sequence is not written"}},
      {Fault::NonCausalOverflow,
       {.id = "F-7",
        .what = "backward: exp(G_i - G_j) of future pairs overflows before its mask multiplies it "
                "by 0"}},
      {Fault::UnwrittenTail,
       {.id = "F-8", .what = "gradients beyond cu_seqlens[-1] are never written"}},
      {Fault::LastTileDropped,
       {.id = "P-B1", .what = "the last partial block of 16 rows of o stays zero"}},
      {Fault::MaskOffByOne,
       {.id = "P-B2",
        .what = "the causal mask of the scores is strict: a token does not see itself"}},
      {Fault::UpperTriangle,
       {.id = "F-36", .what = "the upper triangle of the inverse is not cleared"}},
      {Fault::HeadZeroGates,
       {.id = "A-KG02",
        .alias = "F-10",
        .what =
            "backward: the state gradient decays by the gates of head 0 of the first sequence"}},
      {Fault::GateByQkHead,
       {.id = "F-11",
        .what = "A_log and dt_bias are indexed by the query head, not the value head"}},
      {Fault::StateTransposed,
       {.id = "F-12", .what = "the output reads the state of a chunk as [V,K]"}},
      {Fault::ChunkHardCoded,
       {.id = "F-13",
        .what = "backward: the state gradient advances by 64 rows while the chunk is 32"}},
      {Fault::SliceOffset,
       {.id = "F-14",
        .what = "the second half of the channels of dg is read at the offset of the sequence's own "
                "length"}},
      {Fault::GlobalChunks,
       {.id = "F-15",
        .what =
            "the gate's prefix sum restarts at multiples of C of the batch, not of the sequence"}},
      {Fault::BatchStride,
       {.id = "A-KG11", .what = "backward: every batch row reads the cotangent of row 0"}},
      {Fault::InterleavedHeads,
       {.id = "P-B3", .what = "value head h reads query head h % H, not h / (HV / H)"}},
      {Fault::OneHeadOfGroup,
       {.id = "P-B4", .what = "dq and dk hold the last value head of a group, not the sum"}},
      {Fault::StaleState,
       {.id = "P-B5", .what = "a packed sequence starts from the state of the one before"}},
      {Fault::WrongBoundary,
       {.id = "F-37", .what = "the final state is that before the last, partial chunk"}},
      {Fault::CotangentOfHeadZero,
       {.id = "P-B6", .what = "backward: every head reads the cotangent of head 0"}},
      {Fault::NoDeltaWithoutGate,
       {.id = "A-KG04",
        .what = "the delta correction sits in the branch of the gate: without one v is added "
                "uncorrected"}},
      {Fault::ErrorBeforeDecay,
       {.id = "P-K8", .what = "the state decays after the error is taken, not before"}},
      {Fault::DecayOneRowEarly,
       {.id = "P-K13", .what = "the state update takes the decay one row early"}},
      {Fault::ColumnBeta,
       {.id = "P-K4", .what = "the triangular system takes beta of its column, not of its row"}},
      {Fault::InterChunkScale,
       {.id = "P-K5", .what = "what the output reads from the state lacks the factor on q"}},
      {Fault::OneAnchorPerChunk,
       {.id = "F-21",
        .what = "one anchor in the middle of the chunk: exponents beyond 88 at g = -5"}},
      {Fault::StrayAnchor,
       {.id = "A-KG08",
        .what = "the anchor of the exponents is read without the head stride, from another token "
                "and head"}},
      {Fault::NegativePowers,
       {.id = "F-22",
        .what = "k exp(-G) is formed by itself, which overflows for unbounded gates"}},
      {Fault::ClampedExponent,
       {.id = "F-26", .what = "the argument of the exponential is clamped at -5"}},
      {Fault::TruncatedNeumann,
       {.id = "P-B7",
        .what =
            "the inverse of a 16-row block is a Neumann product without its last factor, 1 + L^8"}},
      {Fault::NoKeyGradientWithoutGate,
       {.id = "A-KG03",
        .alias = "F-18",
        .what = "backward without a gate: dk and dbeta lack their key part"}},
      {Fault::DbetaWithoutKey, {.id = "P-K9", .what = "backward: dbeta lacks its key part"}},
      {Fault::DiagonalInGate,
       {.id = "F-19",
        .what = "the diagonal terms of dAqk stay in the gate gradient and cancel only to TF32"}},
      {Fault::DiagonalDropped, {.id = "P-B8", .what = "backward: the diagonal of dAqk is dropped"}},
      {Fault::SharedAnchorBackward,
       {.id = "F-23", .what = "backward: one anchor in the middle of the chunk"}},
      {Fault::SuffixByDifference,
       {.id = "A-KG10",
        .alias = "F-28",
        .what = "backward: the reverse sum of the gate gradient is total - prefix + self"}},
      {Fault::ScalarStateGradient,
       {.id = "A-KG09",
        .what = "backward: the sum of S_T dS_T over all sequences and heads is added to every "
                "element of dg"}},
      {Fault::ExtraLog2e, {.id = "P-K3", .what = "backward: dg carries a factor 1/ln 2"}},
      {Fault::UndecayedAdjoint, {.id = "P-K6", .what = "backward: dS passes a chunk undecayed"}},
      {Fault::UndecayedInitialState,
       {.id = "P-B9",
        .what = "backward: the gradient of the initial state lacks the first chunk's decay"}},
      {Fault::NoLastGate,
       {.id = "P-K7",
        .what =
            "backward: dg lacks what passes from the state before to the state after the chunk"}},
      {Fault::QueryUnscaled,
       {.id = "P-B10", .what = "backward: what dq takes from the state lacks the factor on q"}},
      {Fault::MeanEps,
       {.id = "P-K2", .what = "the L2 norm adds eps to the mean of the squares, not to their sum"}},
      {Fault::EpsOutside,
       {.id = "A-NR04", .alias = "F-24", .what = "the L2 norm adds eps outside the root"}},
      {Fault::NormConstant,
       {.id = "A-KG12",
        .what = "backward: the denominator of the L2 norm is treated as a constant"}},
      {Fault::SoftplusSlope,
       {.id = "P-B11", .what = "backward: the slope of softplus is taken as 1"}},
      {Fault::UnscaledBeta,
       {.id = "P-B12",
        .what = "backward: the logit's gradient lacks the factor 2 of beta = 2 sigmoid"}},
      {Fault::MergeNarrow,
       {.id = "F-27", .what = "the merge of the inverse's blocks rounds its operands to bf16"}},
      {Fault::NarrowGateSum, {.id = "F-29", .what = "the cumulative gate is stored in bf16"}},
      {Fault::NarrowTransition,
       {.id = "A-KG06",
        .alias = "F-31",
        .what = "the state passes a chunk through a transition matrix that is kept in bf16"}},
      {Fault::NarrowState, {.id = "P-K10", .what = "the carried state is rounded to bf16"}},
      {Fault::NarrowAccumulator, {.id = "P-B13", .what = "products accumulate in bf16"}},
      {Fault::NarrowBeta, {.id = "P-B14", .what = "beta is rounded to bf16"}},
      {Fault::BiasNarrow,
       {.id = "F-38",
        .what =
            "the raw gate's gradient is rounded to bf16 before its sum over tokens gives dt_bias"}},
      {Fault::OutputTruncated, {.id = "P-K11", .what = "o is truncated, not rounded, to its type"}},
      {Fault::LowExponential, {.id = "P-K12", .what = "the exponential is low by 5e-4"}},
      {Fault::Unsupported,
       {.id = "A-KG01",
        .alias = "F-20",
        .what = "exponents are anchored at a future row",
        .unsupported = "either anchor is as accurate; only causality changes, which is a matter of "
                       "launches: the kernels' mutants show it"}},
      {Fault::Unsupported,
       {.id = "F-5",
        .what = "code compiled for another gate type is reused",
        .unsupported = kNoMemory}},
      {Fault::Unsupported,
       {.id = "A-RC08",
        .alias = "F-16",
        .what = "an offset is computed in 32 bits",
        .unsupported = "needs more than 2^31 elements; the kernels' mutants wrap earlier"}},
      {Fault::Unsupported,
       {.id = "F-17",
        .what = "the convolution's backward assumes contiguous cotangents",
        .unsupported = kRecurrence}},
      {Fault::Unsupported,
       {.id = "F-25",
        .what = "the gated norm's recomputation stores y before the gate",
        .unsupported = kRecurrence}},
      {Fault::Unsupported,
       {.id = "F-30",
        .what = "the convolution's state gradient goes to a clamped slot",
        .unsupported = kRecurrence}},
      {Fault::Unsupported,
       {.id = "A-RC05",
        .alias = "F-32",
        .what = "a tuning configuration is miscompiled",
        .unsupported = "a defect of a GPU compiler"}},
      {Fault::Unsupported,
       {.id = "F-33",
        .what = "the order of the state's sums differs from launch to launch",
        .unsupported = kNoMemory}},
      {Fault::Unsupported,
       {.id = "F-34",
        .what = "stages of an asynchronous pipeline lack their dependency",
        .unsupported = kNoMemory}},
      {Fault::Unsupported,
       {.id = "F-35", .what = "the forward writes over its inputs", .unsupported = kNoMemory}},
      {Fault::Unsupported,
       {.id = "F-39",
        .what = "the chunk map of an earlier batch is reused",
        .unsupported = kNoMemory}},
  };
  return list;
}

}  // namespace

std::vector<FaultDef> fault_list() {
  std::vector<FaultDef> defs;
  for (const Entry& entry : entries()) defs.push_back(entry.def);
  return defs;
}

Fault parse_fault(std::string_view id) {
  if (id.empty()) return Fault::None;
  for (const Entry& entry : entries())
    if (entry.def.id == id) return entry.fault;
  throw Failure("kda: no fault '" + std::string(id) + "'");
}

}  // namespace parity::kda
