// Transformer Engine's python reference with power-of-two scales: e2m1 in blocks of 32, the scale
// kept as f32.
//
//   scale = 2^clamp(ceil(log2f(fl(amax/6))), -127, 127)
//   code  = e2m1(clamp(fl(x 2^-e), -6, 6)); -0 and NaN give code 0
//
//   source   transformer_engine 2.20.2, pytorch/custom_recipes/reference_nvfp4.py,
//            _quantize_blockwise_reference (the quantiser above it raises with these scales)
#include <algorithm>
#include <cmath>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

using quantize::columns_of;
using quantize::rows_of;

std::vector<TensorSpec> outputs_of(const Case& c) {
  std::vector<TensorSpec> specs = outputs(c, Dtype::E2M1);
  specs[1].name = "decode_scale";
  specs[1].role = Role::Output;
  specs[1].dtype = Dtype::F32;
  return specs;
}

std::uint8_t scale_of(float amax, Defect defect) {
  if (std::isnan(amax)) return 0xFF;
  const float d = amax / 6.0F;
  if (defect == Defect::Floor)
    return byte_of(static_cast<int>(std::clamp(std::floor(log2_f32(d)), -127.0F, 127.0F)));
  if (defect == Defect::ExactCeil) return rounded_up(d);
  return byte_of(static_cast<int>(std::clamp(std::ceil(log2_f32(d)), -127.0F, 127.0F)));
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses(c); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  const Element& e2m1 = *element_of("e2m1");
  const E2m1Policy policy{.nan = E2m1Nan::Zero,
                          .negative_zero = defect == Defect::NegativeZero
                                               ? E2m1NegativeZero::Keep
                                               : E2m1NegativeZero::Positive};
  const auto cast = [=](float y) {
    const bool own = defect == Defect::None || defect == Defect::NegativeZero;
    return own ? e2m1_from_float(y, policy) : code_of(e2m1, y == 0 ? 0.0F : y, defect);
  };
  Chain chain = plain_chain(e2m1, block_of(c), defect);
  chain.scale = [=](float amax) { return scale_of(amax, defect); };
  chain.cast = cast;
  const Quantised q = quantise(quantize::matrix_of(inputs.at("x")), chain);
  std::vector<float> scales;
  for (const std::uint8_t byte : q.scales) scales.push_back(scale_value(byte, defect));
  Answer answer(outputs_of(c));
  give(answer, q, defect);
  answer.values("decode_scale", scales);
  return answer.take();
}

const Register chain{ChainDef{
    .name = "mxfp4_te_pow2",
    .what = "scale = 2^ceil(log2f(amax/6)) as f32; code = e2m1(x/scale), -0 and NaN give 0",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"mxfp4_te_pow2"},
    .faults = faults_of({Defect::Floor, Defect::NegativeZero, Defect::HalfAway,
                         Defect::FlushedDecode, Defect::AmaxSigned, Defect::NibblesSwapped}),
    .import = import_torchao,
}};

}  // namespace
}  // namespace parity::mx
