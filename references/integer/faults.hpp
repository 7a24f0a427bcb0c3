// Defects of integer quantisers and of 2:4 pruning as one switch, and the rows that name them.
#pragma once

#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::integer {

enum class Defect : std::uint8_t {
  None,
  Divided,
  HalfAway,
  Truncated,
  WideScale,
  FullRange,
  ZeroExcluded,
  ZeroRounded,
  EpsMissing,
  DequantExpanded,
  DequantWide,
  Wrapped,
  NeighbourGroup,
  NibblesSwapped,
  MaskMissing,
  MaskExclusive,
  MaskAfterClamp,
  GradientPlain,
  GradientZero,
  GradientOfValue,
  ScaleDetached,
  PathDiffers,
};

// None for an id that this table does not know.
Defect defect_of(std::string_view fault);
// The rows of some defects, for the chain that can have them.
std::vector<FaultDef> faults_of(const std::vector<Defect>&);

}  // namespace parity::integer
