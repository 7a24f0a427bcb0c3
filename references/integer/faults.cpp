#include "references/integer/faults.hpp"

#include "references/quantize/fault_table.hpp"

namespace parity::integer {
namespace {

const quantize::FaultTable<Defect>& table() {
  static const quantize::FaultTable<Defect> rows = {
      {Defect::Divided,
       {"P-int-divide", "", "x / s in place of x fl(1/s): a code at a tie (torchao #229)"}},
      {Defect::HalfAway, {"P-int-half-away", "", "ties of an integer away from zero"}},
      {Defect::Truncated, {"P-int-truncate", "", "integers truncated"}},
      {Defect::WideScale,
       {"P-int-wide-scale", "", "scale formed in f32 where the data's bf16 rounds it"}},
      {Defect::FullRange,
       {"P-int-range", "", "range of the integers off by one in the scale's divisor"}},
      {Defect::ZeroExcluded,
       {"P-int-zero-range", "", "zero left out of the range, or forced into it"}},
      {Defect::ZeroRounded,
       {"P-int-zero-rounded", "", "float zero point rounded where the source truncates it"}},
      {Defect::EpsMissing, {"P-int-eps", "", "no lower bound of the scale: 0/0 for a zero group"}},
      {Defect::DequantExpanded,
       {"P-int-dequant", "", "q s - zp s in place of (q - zp) s: other roundings"}},
      {Defect::DequantWide,
       {"P-int-dequant-wide", "", "dequantised in f32 and rounded once, not at every step"}},
      {Defect::Wrapped, {"P-int-wrap", "", "no clamp: what leaves the range wraps"}},
      {Defect::NeighbourGroup, {"P-int-group", "", "scale of the group before"}},
      {Defect::NibblesSwapped,
       {"P-int-nibbles", "", "even element of a pair in the high nibble (sglang #23625)"}},
      {Defect::MaskMissing,
       {"P-int-mask-missing", "", "gradient of clipped elements not masked (MSLK #348)"}},
      {Defect::MaskExclusive, {"P-int-mask-open", "", "elements on the range's ends masked too"}},
      {Defect::MaskAfterClamp,
       {"P-int-mask-clamped", "", "mask formed after the clamp: all ones, or the reverse"}},
      {Defect::GradientPlain,
       {"P-int-gradient-plain", "", "m g in place of m ((g s) fl(1/s)): an ulp"}},
      {Defect::GradientZero,
       {"P-int-no-ste", "", "round() differentiated: no gradient at all (MSLK #348)"}},
      {Defect::GradientOfValue,
       {"P-int-ste-variable", "", "backward uses the wrong variable (torchao #3478)"}},
      {Defect::ScaleDetached,
       {"P-int-scale-detached", "", "no gradient through the scale to the extreme elements"}},
      {Defect::PathDiffers,
       {"P-int-paths", "", "converted weights quantised by another formula (torchao #3050)"}},
  };
  return rows;
}

}  // namespace

Defect defect_of(std::string_view fault) { return table().defect(fault); }
std::vector<FaultDef> faults_of(const std::vector<Defect>& defects) {
  return table().faults(defects);
}

}  // namespace parity::integer
