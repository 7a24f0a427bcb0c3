// The defects that the KDA kernels can be given, as switches read in outer loops. What each one is:
// faults.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::kda_kernel {

enum class Fault : std::uint8_t {
  None,
  // masks, tails, padding
  TailRowsUnmasked,
  SubstitutionPastEnd,
  PaddedRowsInStateGradient,
  FinalDecayFromLastRow,
  TailUnwritten,
  EmptySequenceStateUnwritten,
  PaddedLanesUnmasked,
  UpperTriangleUninitialised,
  MaskAfterExp,
  // indexing and layout
  HeadZeroDecay,
  GateParamsByQkHead,
  StateReadTransposed,
  ChunkSizeHardCoded,
  SplitKOffset,
  GateRestartAtGlobalChunks,
  AnchorWithoutHeadStride,
  GradientsOfFirstBatchRow,
  NarrowIndex,
  StaleChunkMap,
  StateAtWrongBoundary,
  SavedScribbled,
  InputsClobbered,
  // arithmetic
  NoGateBranchSkipsKeyTerms,
  NoGateSkipsDelta,
  DiagonalInGateGradient,
  FutureAnchor,
  SharedAnchor,
  SharedAnchorBackward,
  InverseDecayMaterialised,
  ExpArgumentClamped,
  MergeInBf16,
  ReverseSumByDifference,
  CumulativeGateInBf16,
  StateCotangentSummedOverAll,
  NormEpsOutsideRoot,
  NormEpsOnMean,
  BiasSummedInBf16,
  GateReadAsQ,
  BaseTwoFactorInGateGradient,
  BetaByColumn,
  ScaleMissingInStateTerm,
  StateGradientNotDecayed,
  LastGateTermMissing,
  GateAfterError,
  BetaGradientWithoutKey,
  StateKeptInBf16,
  OutputTruncated,
  ExpLow,
  DecayOneRowEarly,
  // memory and order
  OrderChangesBetweenLaunches,
  Unsupported,
};

Fault parse_fault(
    std::string_view id);  // by id; None for the empty one. Throws Failure for an unknown one

enum class KernelKind : std::uint8_t { ChunkedF32, ChunkedBf16, Recurrent };
std::vector<FaultDef> faults_of(KernelKind);

}  // namespace parity::kda_kernel
