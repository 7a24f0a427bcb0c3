// MXFP4 of the four-over-six authors: e2m1 in blocks of 32, their rounding, scale rule static_6.
//
//   byte  d = fl(amax/6): E(d) + (M(d) != 0), no rule for a subnormal d
//   y     byte 0: 0, else fl(x / 2^(byte-127))
//   code  sign(y) (a < 2 ? rint(2a)/2 : a < 4 ? rint(a) : 2 rint(a/2)), a = |y|; sign(+-0) = 0
//
//   source   mit-han-lab/fouroversix dadfad69, src/fouroversix/quantize/pytorch/reference.py
#include <cmath>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

std::uint8_t scale_of(float amax, float top, Defect defect) {
  const float d = amax / top;
  if (!std::isfinite(d)) return 0xFF;
  if (defect == Defect::ExactCeil) return rounded_up(d);
  const bool up = mantissa_field(d) != 0 && defect != Defect::Floor;
  return static_cast<std::uint8_t>(exponent_field(d) + (up ? 1 : 0));
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const std::string rule = c.options.get("rule", "static_6");
  if (rule != "static_6") return {.refused = "MXFP4 has the scale rule static_6 alone"};
  const Defect defect = defect_of(fault);
  const Element& e2m1 = *element_of("e2m1");
  Chain chain = plain_chain(e2m1, block_of(c), defect);
  chain.scale = [=](float amax) { return scale_of(amax, e2m1.max, defect); };
  chain.scaled = [](float x, std::uint8_t scale) {
    return scale == 0 ? 0.0F : x / scale_value(scale);
  };
  chain.cast = [=](float y) { return code_of(e2m1, y == 0 ? 0.0F : y, defect); };
  return run(c, inputs, chain);
}

void import(const StoredCase& stored, ImportedCase& imported) {
  import_torchao(stored, imported);  // the block
  quantize::take_option(stored, "scale_rule", "rule", imported.problem.options);
}

std::vector<TensorSpec> outputs_of(const Case& c) { return outputs(c, Dtype::E2M1); }

const Register chain{ChainDef{
    .name = "mxfp4_fouroversix",
    .what = "byte = E(amax/6) + (M != 0); blocks of byte 0 become zero; -0 gives code 0",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"mxfp4_fouroversix"},
    .faults = faults_of({Defect::Floor, Defect::ExactCeil, Defect::HalfAway, Defect::AmaxSigned,
                         Defect::NibblesSwapped}),
    .import = import,
}};

}  // namespace
}  // namespace parity::mx
