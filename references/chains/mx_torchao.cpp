// torchao's `to_mx` at 36027d82: blocks of 32, an e8m0 scale of the block's amax by one of four
// modes, elements of five formats. E and M are the fields of amax as f32.
//
//   floor  e = E - 127 - max_pow2                        byte = clamp(e, -127, 128) + 127
//   ceil   the same, one more where M != 0               (255, a NaN block, where amax is not
//   finite) even   amax rounded to the element's mantissa by adding half of its last place, then
//   floor rceil  d = fl(amax fl(1/max)), byte of 2^ceil(log2 d) from the bits of d code   cast(fl(x
//   r)), saturating, r = 2^(127-byte)   value = R(code 2^(byte-127))
//
//   source   pytorch/ao 36027d82, prototype/mx_formats/mx_tensor.py
#include <bit>
#include <cmath>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

std::uint8_t rceil(const Element& e, float amax, Defect defect) {
  float d = amax * (1.0F / e.max);
  if (defect == Defect::ScaleInBf16)
    d = static_cast<float>(round_to(Dtype::BF16, static_cast<double>(d)));
  if (defect == Defect::OneLow && d > 0 && std::isfinite(d))
    return byte_of(static_cast<int>(std::ceil(log2_f32(d))));
  return rounded_up(d);
}

std::uint8_t scale_of(const Element& e, std::string_view mode, float amax, Defect defect) {
  if (std::isnan(amax)) return 0xFF;
  if (mode == "rceil" && defect != Defect::Floor) return rceil(e, amax, defect);
  if (mode == "even") amax = rounded_even(e, amax);
  if (std::isinf(amax)) return 0xFF;
  const bool up = mode == "ceil" && mantissa_field(amax) != 0;
  return byte_of(exponent_field(amax) - kBias - e.max_pow2 + (up ? 1 : 0));
}

Chain chain_of(const Element& e, const std::string& mode, Defect defect) {
  Chain chain = plain_chain(e, kBlock, defect);
  chain.scale = [=](float amax) { return scale_of(e, mode, amax, defect); };
  return chain;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  return run_torchao(c, inputs, fault, chain_of);
}

const Register chain{ChainDef{
    .name = "mx_torchao",
    .what = "e = floor, ceil, even or rceil of log2(amax/max); code = cast(x 2^-e)",
    .quantize = quantize,
    .outputs = torchao_outputs,
    .groups = {"mx_torchao_git36027d82_e2m1_ceil",  "mx_torchao_git36027d82_e2m1_even",
               "mx_torchao_git36027d82_e2m1_floor", "mx_torchao_git36027d82_e2m1_rceil",
               "mx_torchao_git36027d82_e2m3_ceil",  "mx_torchao_git36027d82_e2m3_even",
               "mx_torchao_git36027d82_e2m3_floor", "mx_torchao_git36027d82_e2m3_rceil",
               "mx_torchao_git36027d82_e3m2_ceil",  "mx_torchao_git36027d82_e3m2_even",
               "mx_torchao_git36027d82_e3m2_floor", "mx_torchao_git36027d82_e3m2_rceil",
               "mx_torchao_git36027d82_e4m3_ceil",  "mx_torchao_git36027d82_e4m3_even",
               "mx_torchao_git36027d82_e4m3_floor", "mx_torchao_git36027d82_e4m3_rceil",
               "mx_torchao_git36027d82_e5m2_ceil",  "mx_torchao_git36027d82_e5m2_even",
               "mx_torchao_git36027d82_e5m2_floor", "mx_torchao_git36027d82_e5m2_rceil"},
    .faults = faults_of({Defect::SpecialScales,  Defect::PackedMantissa,
                         Defect::NanSentinel,    Defect::ExponentReciprocal,
                         Defect::FlushedDecode,  Defect::ScaleInBf16,
                         Defect::Floor,          Defect::OneLow,
                         Defect::Bias128,        Defect::CastOverflow,
                         Defect::ShiftWraps,     Defect::ImplicitOne,
                         Defect::HalfAway,       Defect::Truncated,
                         Defect::DoubleRounding, Defect::AmaxDropsNan,
                         Defect::AmaxSigned,     Defect::AmaxOfNeighbour,
                         Defect::NibblesSwapped, Defect::NegativeZero}),
    .import = import_torchao,
}};

}  // namespace
}  // namespace parity::mx
