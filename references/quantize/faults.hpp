// Defects of a quantiser as one switch, and the catalogue rows that name them.
#pragma once

#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::quantize {

enum class Defect : std::uint8_t {
  None,
  ExactScale,
  ReciprocalOrder,
  InverseGlobal,
  StaleTail,
  SwizzledTwice,
  SwizzleTransposed,
  SwizzleSkipped,
  PaddingUnwritten,
  NibblesSwapped,
  HalfAway,
  Truncated,
  DoubleRounding,
  ClampToFour,
  CodeOverflow,
  ScaleOverflow,
  ScaleUp,
  ScaleTruncated,
  ScaleImplicitOne,
  AmaxDropsNan,
  AmaxSigned,
  AmaxOfNeighbour,
  AmaxInBf16,
  AmaxWithoutSix,
  SixInverted,
  DivisionOff,
  FloorMissing,
  FloorAdded,
  ZeroGuardMissing,
  NegativeZeroLost,
  DequantOrder,
  DequantTruncated,
  GradientMasked,
  GradientOfDequant,
  TileFirstRow,
  GroupsIgnored,
  OneAmaxForAll,
  RhtAmaxBefore,
  RhtOtherSigns,
  RhtNoSigns,
  RhtUnscaled,
  RhtOrder,
  RhtNotRounded,
  RhtInverse,
  StochasticZero,
  StochasticShared,
  StochasticNearest,
  StochasticOneBit,
  StochasticLanes,
  StochasticUpward,
  ChoiceTie,
  ChoiceSigned,
  ChoiceMeasure,
  ChoiceBound,
  GuardMissing,
  PositiveZeroMissing,
  RoundingsMissing,
};

// None for an id that this table does not know.
Defect defect_of(std::string_view fault);

// All rows, for the op.
std::vector<FaultDef> all_faults();
// The rows of some defects, for a chain that has more than the op.
std::vector<FaultDef> faults_of(const std::vector<Defect>&);

}  // namespace parity::quantize
