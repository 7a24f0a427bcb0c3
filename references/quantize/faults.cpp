// The quantiser's faults: ids of the catalogue where it has one, else our own (P-).
#include "references/quantize/faults.hpp"

#include "references/quantize/fault_table.hpp"

namespace parity::quantize {
namespace {

const FaultTable<Defect>& table() {
  static const FaultTable<Defect> rows = {
      {Defect::ExactScale,
       {"A-QT05", "", "data multiplied by the exact block scale, stored beside its e4m3 rounding"}},
      {Defect::ReciprocalOrder,
       {"A-QT08", "", "the encode factor formed in the other order: one ulp, a code at a tie"}},
      {Defect::InverseGlobal, {"A-QT10", "", "the tensor scale multiplied where it is a divisor"}},
      {Defect::StaleTail,
       {"A-QT06", "", "lanes past the row's end keep the block before and enter the block's amax"}},
      {Defect::SwizzledTwice, {"P-swizzled-twice", "", "scales permuted to 128x4 twice"}},
      {Defect::SwizzleTransposed,
       {"P-swizzle-transposed", "", "row and column swapped inside the 4x4 of the 128x4 layout"}},
      {Defect::SwizzleSkipped, {"P-swizzle-skipped", "", "plain scales where 128x4 is asked for"}},
      {Defect::PaddingUnwritten,
       {"P-padding", "", "padding of the 128x4 scales not zeroed: NaN bytes (vLLM #45741)"}},
      {Defect::NibblesSwapped,
       {"P-nibbles", "", "even element in the high nibble (sglang #23625)"}},
      {Defect::HalfAway, {"P-half-away", "", "ties of e2m1 away from zero"}},
      {Defect::Truncated, {"P-truncate", "", "e2m1 codes truncated"}},
      {Defect::DoubleRounding, {"P-double-rounding", "", "fp32 to bf16 to e2m1"}},
      {Defect::ClampToFour, {"P-clamp-4", "", "scaled values clamped to +-4"}},
      {Defect::CodeOverflow,
       {"P-code-overflow", "", "e2m1 without saturation: what rounds to 8 wraps to -0"}},
      {Defect::ScaleOverflow,
       {"P-scale-overflow", "", "e4m3 cast without saturation: NaN above 464 (pytorch #154028)"}},
      {Defect::ScaleUp, {"P-scale-up", "", "block scales rounded up"}},
      {Defect::ScaleTruncated, {"P-scale-truncated", "", "block scales truncated"}},
      {Defect::ScaleImplicitOne,
       {"P-scale-subnormal", "", "subnormal e4m3 scales decoded with the implicit one"}},
      {Defect::AmaxDropsNan, {"P-amax-nan", "", "fmax drops a NaN: a finite scale hides it"}},
      {Defect::AmaxSigned, {"P-amax-signed", "", "max x in place of max |x|"}},
      {Defect::AmaxOfNeighbour, {"P-amax-neighbour", "", "amax of the block above it"}},
      {Defect::AmaxInBf16, {"P-amax-bf16", "", "block amax rounded to bf16 (torchao #4725)"}},
      {Defect::AmaxWithoutSix,
       {"P-missing-six", "", "tensor scale amax/448 in place of amax/2688 (torchao #2604)"}},
      {Defect::SixInverted,
       {"P-reciprocal-six", "", "amax/6 as amax times fl(1/6), or the reverse: a scale at a tie"}},
      {Defect::DivisionOff,
       {"P-division-ulp", "", "approximate division: the encode factor an ulp high"}},
      {Defect::FloorMissing, {"P-floor-missing", "", "scale floor 2^-6 dropped"}},
      {Defect::FloorAdded, {"P-floor-added", "", "scale floor 2^-6 where the chain has none"}},
      {Defect::ZeroGuardMissing,
       {"P-zero-guard", "", "amax 0 not guarded (compressed-tensors #595)"}},
      {Defect::NegativeZeroLost, {"P-negative-zero", "", "the other policy for the code of -0"}},
      {Defect::DequantOrder, {"P-dequant-order", "", "(code * scale) * tensor scale"}},
      {Defect::DequantTruncated, {"P-dequant-truncated", "", "bf16 dequant truncated"}},
      {Defect::GradientMasked, {"P-ste-mask", "", "straight-through gradient cut where clamped"}},
      {Defect::GradientOfDequant,
       {"P-ste-variable", "", "gradient from the dequantised values (torchao #3478)"}},
      {Defect::TileFirstRow,
       {"P-tile-row", "", "scale of a 16x16 tile from its first row: no longer that of x^T"}},
      {Defect::GroupsIgnored,
       {"P-groups-tiled", "", "128x4 scales of x^T tiled over all groups, not restarted"}},
      {Defect::OneAmaxForAll,
       {"P-one-amax", "", "amax of the tensor where each row or group has its own"}},
      {Defect::RhtAmaxBefore,
       {"P-rht-amax", "", "amax before the transform for the transformed copy"}},
      {Defect::RhtOtherSigns,
       {"P-rht-signs", "", "another sign vector than its partner's (torchao #4369)"}},
      {Defect::RhtNoSigns, {"P-rht-no-signs", "", "Hadamard without the signs"}},
      {Defect::RhtUnscaled, {"P-rht-scale", "", "Hadamard without the 1/4"}},
      {Defect::RhtOrder, {"P-rht-order", "", "rows of Hadamard in Walsh's order, not Sylvester's"}},
      {Defect::RhtNotRounded,
       {"P-rht-rounding", "", "transformed values quantised before their rounding to bf16"}},
      {Defect::RhtInverse, {"P-rht-inverse", "", "the inverse transform in place of the forward"}},
      {Defect::StochasticZero, {"A-QT03", "", "stochastic rounding returns zeros"}},
      {Defect::StochasticShared, {"A-QT04", "", "two stochastic copies share a stream"}},
      {Defect::StochasticNearest,
       {"P-sr-nearest", "", "nearest even where stochastic is asked for"}},
      {Defect::StochasticOneBit, {"P-sr-one-bit", "", "only the top random bit is used"}},
      {Defect::StochasticLanes, {"P-sr-lanes", "", "four elements share their random byte"}},
      {Defect::StochasticUpward,
       {"P-sr-upward", "", "random bits added without the sign: toward +inf"}},
      {Defect::ChoiceTie, {"P-choice-tie", "", "four over six at equal errors"}},
      {Defect::ChoiceSigned, {"P-choice-signed", "", "errors summed with their signs"}},
      {Defect::ChoiceMeasure, {"P-choice-measure", "", "MSE for MAE, or the reverse"}},
      {Defect::ChoiceBound,
       {"P-choice-bound", "", "tensor scale for 448 where the candidates need 256"}},
      {Defect::GuardMissing, {"P-guard", "", "scale 0 or the epsilon not guarded"}},
      {Defect::PositiveZeroMissing, {"P-positive-zero", "", "-0 where the chain makes it +0"}},
      {Defect::RoundingsMissing,
       {"P-roundings", "", "an intermediate kept in f32 that is rounded"}},
  };
  return rows;
}

}  // namespace

Defect defect_of(std::string_view fault) { return table().defect(fault); }
std::vector<FaultDef> all_faults() { return table().faults(); }
std::vector<FaultDef> faults_of(const std::vector<Defect>& defects) {
  return table().faults(defects);
}

}  // namespace parity::quantize
