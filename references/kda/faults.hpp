// Defects that the base can be given (OpDef::faults): each is a line or two in the chunked form,
// where the published bug was. What an evaluation on a CPU cannot show is listed too, with the
// reason.
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
  MaskOffByOne,
  UpperTriangle,
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
  // mathematics of the state
  NoDeltaWithoutGate,
  ErrorBeforeDecay,
  DecayOneRowEarly,
  ColumnBeta,
  InterChunkScale,
  OneAnchorPerChunk,
  StrayAnchor,
  NegativePowers,
  ClampedExponent,
  TruncatedNeumann,
  // mathematics of the backward
  NoKeyGradientWithoutGate,
  DbetaWithoutKey,
  DiagonalInGate,
  DiagonalDropped,
  SharedAnchorBackward,
  SuffixByDifference,
  ScalarStateGradient,
  ExtraLog2e,
  UndecayedAdjoint,
  UndecayedInitialState,
  NoLastGate,
  QueryUnscaled,
  // gate, norm, beta
  MeanEps,
  EpsOutside,
  NormConstant,
  SoftplusSlope,
  UnscaledBeta,
  // arithmetic
  MergeNarrow,
  NarrowGateSum,
  NarrowTransition,
  NarrowState,
  NarrowAccumulator,
  NarrowBeta,
  BiasNarrow,
  OutputTruncated,
  LowExponential,
  // not here
  Unsupported
};

std::vector<FaultDef> fault_list();
Fault parse_fault(std::string_view id);  // by id; None if empty; throws Failure if unknown

}  // namespace parity::kda
