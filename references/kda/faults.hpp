// Defects that the base can be given (OpDef::faults): each is a line or two in the chunked form,
// where the published bug was. What a CPU evaluation cannot show is listed too, with the reason.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::kda {

enum class Fault : std::uint8_t {
  None,
  // masks and tails
  TailDecayOverflow,
  TailSolveGarbage,
  TailGateSum,
  TailLastRow,
  PaddedChannels,
  EmptySequence,
  NonCausalOverflow,
  UnwrittenTail,
  LastTileDropped,
  // indexing and layout
  HeadZeroGates,
  GateByQkHead,
  StateTransposed,
  ChunkHardCoded,
  SliceOffset,
  GlobalChunks,
  BatchStride,
  InterleavedHeads,
  OneHeadOfGroup,
  StaleState,
  WrongBoundary,
  CotangentOfHeadZero,
  // mathematics
  NoDeltaWithoutGate,
  NoKeyGradientWithoutGate,
  DbetaWithoutKey,
  DiagonalInGate,
  DiagonalDropped,
  FutureAnchor,
  StrayAnchor,
  OneAnchorPerChunk,
  SharedAnchorBackward,
  NegativePowers,
  MeanEps,
  EpsOutside,
  NormConstant,
  ClampedExponent,
  MergeNarrow,
  TruncatedNeumann,
  SuffixByDifference,
  NarrowGateSum,
  ScalarStateGradient,
  NarrowTransition,
  ExtraLog2e,
  ColumnBeta,
  InterChunkScale,
  UndecayedAdjoint,
  LateDecay,
  NoLastGate,
  ErrorBeforeDecay,
  DecayOneRowEarly,
  MaskOffByOne,
  SoftplusSlope,
  BiasNarrow,
  UnscaledBeta,
  GateSign,
  ScaleOnce,
  UpperTriangle,
  // arithmetic
  TruncatedOutput,
  NarrowState,
  LowExponential,
  NarrowAccumulator,
  NarrowBeta,
  InitialStateGradientUndecayed,
};

std::vector<FaultDef> fault_list();
Fault parse_fault(std::string_view id);  // by id; None if empty; throws Failure if unknown

}  // namespace parity::kda
