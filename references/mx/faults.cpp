// Faults of MX quantisers: ids of the catalogue where it has one, else our own (P-).
#include "references/mx/faults.hpp"

#include "references/quantize/fault_table.hpp"

namespace parity::mx {
namespace {

const quantize::FaultTable<Defect>& table() {
  static const quantize::FaultTable<Defect> rows = {
      {Defect::SpecialScales,
       {"A-QT01", "", "e8m0 bytes 0, 254 and 255 expanded and inverted as if they were normal"}},
      {Defect::PackedMantissa,
       {"A-QT02", "", "four e8m0 bytes packed into a word with mantissas left in"}},
      {Defect::NanSentinel,
       {"P-e8m0-sentinel", "", "e8m0 NaN told by the decoded 128.0 (sglang #25519)"}},
      {Defect::ExponentReciprocal,
       {"P-e8m0-reciprocal", "", "reciprocal of a scale as exp2(127 - byte), flushed (TE #2647)"}},
      {Defect::FlushedDecode,
       {"P-e8m0-flushed", "", "2^-127 flushed to zero, 0xFF decoded as infinity (TE #3262)"}},
      {Defect::ScaleInBf16,
       {"P-amax-bf16", "", "amax / max rounded to bf16 before e8m0 (torchao #4725)"}},
      {Defect::Floor, {"P-mx-floor", "", "scales rounded down where the mode rounds up"}},
      {Defect::OneLow,
       {"P-mx-one-low", "", "ceil(log2f) misses an amax just above max 2^k: a scale one low"}},
      {Defect::ExactCeil,
       {"P-mx-exact-ceil", "", "the exact ceiling where the release takes that of log2f"}},
      {Defect::RepairedEdge,
       {"P-mx-byte-zero", "",
        "blocks of byte 0 scaled back to their size, which the release does not"}},
      {Defect::NanScale,
       {"P-mx-nan-scale", "", "a NaN amax makes a NaN scale where the chain has 0"}},
      {Defect::ElementMantissa,
       {"P-mx-mantissa", "", "amax rounded at the element's own mantissa, not at one bit"}},
      {Defect::WideLog, {"P-mx-wide-log", "", "log2 of a bf16 amax kept in f32"}},
      {Defect::TiesToEven, {"P-ties-even", "", "ties to even where the chain rounds them down"}},
      {Defect::Bias128, {"P-mx-bias", "", "e8m0 bias 128"}},
      {Defect::CastOverflow,
       {"P-cast-overflow", "", "cast without saturation beyond max (pytorch #154028)"}},
      {Defect::ShiftWraps,
       {"P-cast-shift", "", "software cast shifts by more than 63 (rocm-systems #10591)"}},
      {Defect::ImplicitOne,
       {"P-element-subnormal", "", "subnormal elements decoded with the implicit one"}},
      {Defect::HalfAway, {"P-half-away", "", "ties of a code away from zero"}},
      {Defect::Truncated, {"P-truncate", "", "codes truncated"}},
      {Defect::DoubleRounding, {"P-double-rounding", "", "fp32 to bf16 to the element"}},
      {Defect::AmaxDropsNan, {"P-amax-nan", "", "fmax drops a NaN: a finite scale hides it"}},
      {Defect::AmaxSigned, {"P-amax-signed", "", "max x in place of max |x|"}},
      {Defect::AmaxOfNeighbour, {"P-amax-neighbour", "", "amax of the block above it"}},
      {Defect::NibblesSwapped, {"P-nibbles", "", "even element in the high nibble"}},
      {Defect::NegativeZero, {"P-negative-zero", "", "the other policy for the code of -0"}},
  };
  return rows;
}

}  // namespace

Defect defect_of(std::string_view fault) { return table().defect(fault); }
std::vector<FaultDef> faults_of(const std::vector<Defect>& defects) {
  return table().faults(defects);
}

}  // namespace parity::mx
