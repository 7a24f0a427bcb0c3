#include "kernels/kda/faults.hpp"

#include <string>

#include "harness/failure.hpp"

namespace parity::kda_kernel {
namespace {

enum Where : unsigned {
  kF32 = 1,
  kBf16 = 2,
  kDecode = 4,
  kChunked = kF32 | kBf16,
  kAll = kChunked | kDecode
};

struct Entry {
  Fault fault;
  unsigned where;
  FaultDef def;
};

// Catalogue ids; of two names of one defect the A- id, the other as alias. P-K... are our own.
const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
      // ---- masks, tails, padding
      {Fault::TailRowsUnmasked,
       kF32,
       {.id = "A-KG05",
        .alias = "F-1",
        .what = "rows beyond a ragged chunk take part with gate 0: 0 * exp(-G_j) is NaN once the "
                "decay exceeds e^88"}},
      {Fault::SubstitutionPastEnd,
       kF32,
       {.id = "F-2",
        .what =
            "the substitution runs on to a multiple of 16 rows and reads rows that nobody wrote"}},
      {Fault::PaddedRowsInStateGradient,
       kF32,
       {.id = "F-3",
        .what = "backward: padded rows of the last chunk add what their buffers still hold to the "
                "gate gradient"}},
      {Fault::FinalDecayFromLastRow,
       kF32,
       {.id = "F-4",
        .what = "the state update takes the cumulative gate from row C-1 of a partial chunk, where "
                "it is 0"}},
      {Fault::TailUnwritten,
       kF32,
       {.id = "F-8", .what = "rows beyond cu_seqlens[-1] are never written"}},
      {Fault::EmptySequenceStateUnwritten,
       kAll,
       {.id = "A-RC01",
        .alias = "F-9",
        .what = "the final state of an empty sequence is not written"}},
      {Fault::PaddedLanesUnmasked,
       kAll,
       {.id = "A-KG07",
        .alias = "F-6",
        .what = "the gates of padded channels are read past the row: 0 * exp(large) is NaN"}},
      {Fault::UpperTriangleUninitialised,
       kF32,
       {.id = "F-36",
        .what = "the scores above the diagonal are not cleared, and the product with u runs over "
                "them"}},
      {Fault::MaskAfterExp,
       kF32,
       {.id = "F-7",
        .what = "backward: exp(G_i - G_j) of pairs in the future overflows before its mask "
                "multiplies it by 0"}},
      // ---- indexing and layout
      {Fault::HeadZeroDecay,
       kF32,
       {.id = "A-KG02",
        .alias = "F-10",
        .what =
            "backward: the state gradient decays by the gates of head 0 of the first sequence"}},
      {Fault::GateParamsByQkHead,
       kAll,
       {.id = "F-11",
        .what = "A_log and dt_bias are indexed by the query head, not the value head"}},
      {Fault::StateReadTransposed,
       kF32,
       {.id = "F-12", .what = "the output product reads the state as [V,K]"}},
      {Fault::ChunkSizeHardCoded,
       kF32,
       {.id = "F-13",
        .what =
            "backward: the saved states are indexed for another chunk size than the forward's"}},
      {Fault::SplitKOffset,
       kF32,
       {.id = "F-14",
        .what = "the second half of the channels of dg is read at the offset of the sequence's own "
                "length in a packed buffer"}},
      {Fault::GateRestartAtGlobalChunks,
       kF32,
       {.id = "F-15",
        .what =
            "the gate's prefix sum restarts at multiples of C of the batch, not of the sequence"}},
      {Fault::AnchorWithoutHeadStride,
       kF32,
       {.id = "A-KG08",
        .what = "the anchor of the exponents is read without the head stride, from another token "
                "and head"}},
      {Fault::GradientsOfFirstBatchRow,
       kF32,
       {.id = "A-KG11", .what = "backward: gradients of every batch row are those of row 0"}},
      {Fault::NarrowIndex,
       kF32,
       {.id = "A-RC08",
        .alias = "F-16",
        .what = "the offset of v is computed in 10 bits (32 bits and large tensors in the "
                "original) and wraps"}},
      {Fault::StaleChunkMap,
       kF32,
       {.id = "F-39",
        .what = "the chunk map of an earlier batch is used: as many sequences and tokens, other "
                "lengths"}},
      {Fault::StateAtWrongBoundary,
       kF32,
       {.id = "F-37", .what = "the final state is written before the last, partial chunk"}},
      {Fault::SavedScribbled,
       kF32,
       {.id = "P-K1", .what = "the backward writes into a tensor that the forward saved"}},
      {Fault::InputsClobbered,
       kF32,
       {.id = "F-35", .what = "the forward writes its errors over v"}},
      // ---- arithmetic
      {Fault::NoGateBranchSkipsKeyTerms,
       kF32,
       {.id = "A-KG03",
        .alias = "F-18",
        .what = "backward without a gate in the kernel: dk is not written and dbeta lacks its key "
                "part"}},
      {Fault::NoGateSkipsDelta,
       kDecode,
       {.id = "A-KG04",
        .what = "the delta correction sits in the branch of the gate in the kernel: without one v "
                "is added uncorrected"}},
      {Fault::DiagonalInGateGradient,
       kF32,
       {.id = "F-19",
        .what = "the diagonal terms of dAqk stay in the gate gradient and cancel only to TF32"}},
      {Fault::FutureAnchor,
       kChunked,
       {.id = "A-KG01",
        .alias = "F-20",
        .what = "exponents of a diagonal block are anchored at row min(8, rows-1), a future row "
                "for the first ones"}},
      {Fault::SharedAnchor,
       kF32,
       {.id = "F-21",
        .what = "one anchor in the middle of the chunk: exponents beyond 88 at g = -5"}},
      {Fault::InverseDecayMaterialised,
       kF32,
       {.id = "F-22",
        .what = "k exp(-G) is formed by itself, which overflows for unbounded gates"}},
      {Fault::SharedAnchorBackward,
       kF32,
       {.id = "F-23", .what = "backward: one anchor in the middle of the chunk"}},
      {Fault::NormEpsOutsideRoot,
       kF32,
       {.id = "A-NR04", .alias = "F-24", .what = "the L2 norm adds eps outside the root"}},
      {Fault::NormEpsOnMean,
       kF32,
       {.id = "P-K2", .what = "the L2 norm adds eps to the mean of the squares, not to their sum"}},
      {Fault::ExpArgumentClamped,
       kAll,
       {.id = "F-26", .what = "the argument of the exponential is clamped at -5"}},
      {Fault::MergeInBf16,
       kChunked,
       {.id = "F-27", .what = "the merge of the diagonal blocks rounds its operand to bf16"}},
      {Fault::ReverseSumByDifference,
       kF32,
       {.id = "A-KG10",
        .alias = "F-28",
        .what = "backward: the reverse sum of the gate gradient is total - prefix + self"}},
      {Fault::CumulativeGateInBf16,
       kChunked,
       {.id = "F-29", .what = "the cumulative gate is stored in bf16"}},
      {Fault::StateCotangentSummedOverAll,
       kF32,
       {.id = "A-KG09",
        .what = "backward: the sum of S_T dS_T over all sequences and heads is added to every "
                "element of dg"}},
      {Fault::BiasSummedInBf16,
       kBf16,
       {.id = "F-38", .what = "dx is rounded to bf16 before its sum over tokens gives dt_bias"}},
      {Fault::GateReadAsQ,
       kBf16,
       {.id = "F-5",
        .what = "the gate is read in the format of q: code compiled for another dtype"}},
      {Fault::BaseTwoFactorInGateGradient,
       kF32,
       {.id = "P-K3", .what = "backward: dg carries a factor 1/ln 2"}},
      {Fault::BetaByColumn,
       kF32,
       {.id = "P-K4", .what = "the triangular system takes beta of its column, not of its row"}},
      {Fault::ScaleMissingInStateTerm,
       kF32,
       {.id = "P-K5", .what = "what the output reads from the state lacks the factor on q"}},
      {Fault::StateGradientNotDecayed,
       kF32,
       {.id = "P-K6", .what = "backward: dS passes a chunk undecayed"}},
      {Fault::LastGateTermMissing,
       kF32,
       {.id = "P-K7",
        .what =
            "backward: dg lacks what passes from the state before to the state after the chunk"}},
      {Fault::GateAfterError,
       kDecode,
       {.id = "P-K8", .what = "the state decays after the error is taken, not before"}},
      {Fault::BetaGradientWithoutKey,
       kChunked,
       {.id = "P-K9", .what = "backward: dbeta lacks its key part"}},
      {Fault::StateKeptInBf16,
       kBf16 | kDecode,
       {.id = "P-K10", .what = "the carried state is rounded to bf16"}},
      {Fault::OutputTruncated,
       kBf16,
       {.id = "P-K11", .what = "o is truncated to bf16, not rounded"}},
      {Fault::ExpLow, kAll, {.id = "P-K12", .what = "the exponential is low by 5e-4"}},
      {Fault::DecayOneRowEarly,
       kChunked,
       {.id = "P-K13", .what = "the state update takes the decay one row early"}},
      // ---- order
      {Fault::OrderChangesBetweenLaunches,
       kF32,
       {.id = "F-33", .what = "the order of the state's sums differs from launch to launch"}},
      // ---- what a CPU cannot show
      {Fault::Unsupported,
       kF32,
       {.id = "A-KG06",
        .alias = "F-31",
        .what = "the chain of state transitions across ranks is kept in bf16",
        .unsupported = "one rank: the kernel has no context parallelism"}},
      {Fault::Unsupported,
       kF32,
       {.id = "A-RC05",
        .alias = "F-32",
        .what = "a tuning configuration is miscompiled for one architecture",
        .unsupported = "a defect of a GPU compiler; there is no generated code here"}},
      {Fault::Unsupported,
       kF32,
       {.id = "F-34",
        .what = "stages of an asynchronous pipeline lack their dependency",
        .unsupported = "the CPU kernel has no asynchronous stages"}},
  };
  return entries;
}

}  // namespace

Fault parse_fault(std::string_view id) {
  if (id.empty()) return Fault::None;
  for (const Entry& e : table())
    if (e.def.id == id || (!e.def.alias.empty() && e.def.alias == id)) return e.fault;
  throw Failure("kda: no fault '" + std::string(id) + "'");
}

std::vector<FaultDef> faults_of(KernelKind kind) {
  const unsigned bit = kind == KernelKind::ChunkedF32    ? kF32
                       : kind == KernelKind::ChunkedBf16 ? kBf16
                                                         : kDecode;
  std::vector<FaultDef> list;
  for (const Entry& e : table())
    if (e.where & bit) list.push_back(e.def);
  return list;
}

}  // namespace parity::kda_kernel
