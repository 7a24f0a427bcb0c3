// modelopt's MXFP8QTensor: e4m3 in blocks of 32.
//
//   byte  d = fl(amax/448): d > 0 ? clamp(ceil(log2f(d)), -127, 127) + 127 : 0 (a NaN amax too)
//   code  e4m3(fl(x 2^(127-byte))), saturating        value  fl(code 2^(byte-127))
//
//   source   nvidia-modelopt 0.47.0, torch/quantization/qtensor/mxfp8_tensor.py
#include <algorithm>
#include <cmath>
#include <limits>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

std::uint8_t scale_of(float amax, Defect defect) {
  const float d = amax / 448.0F;
  if (defect == Defect::NanScale && std::isnan(d)) return 0xFF;
  if (!(d > 0)) return 0;
  if (defect == Defect::ExactCeil) return std::min(rounded_up(d), std::uint8_t{254});
  const float log = defect == Defect::Floor ? std::floor(log2_f32(d)) : std::ceil(log2_f32(d));
  return byte_of(static_cast<int>(std::clamp(log, -127.0F, 127.0F)));
}

std::vector<TensorSpec> outputs_of(const Case& c) { return outputs(c, Dtype::E4M3); }

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const Defect defect = defect_of(fault);
  Chain chain = plain_chain(*element_of("e4m3"), block_of(c), defect);
  chain.scale = [=](float amax) { return scale_of(amax, defect); };
  return run(c, inputs, chain);
}

const Register chain{ChainDef{
    .name = "mxfp8_modelopt",
    .what = "byte = ceil(log2f(amax/448)) + 127, 0 where amax is 0 or NaN; code = e4m3(x 2^-e)",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"mxfp8_modelopt"},
    .faults = faults_of({Defect::Floor, Defect::ExactCeil, Defect::NanScale, Defect::CastOverflow,
                         Defect::FlushedDecode, Defect::ImplicitOne, Defect::HalfAway}),
    .import = import_torchao,
}};

}  // namespace
}  // namespace parity::mx
