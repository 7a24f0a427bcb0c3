// modelopt's NVFP4QTensor:
//   s2 = amax/2688      b = bamax / (6 s2), 1 where 0      s = e4m3(clamp(b, 2^-9, 448))
//   c = s s2            code = e2m1(|x/c|), sign where x/c < 0        dequant = code c
// Code 8 decodes to +0. A zero tensor is 0/0 throughout.
//   source   nvidia-modelopt 0.47.0, torch/quantization/qtensor/nvfp4_tensor.py
#include <cmath>

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {
namespace {

constexpr float kLeastE4m3 = 0x1p-9F;

struct ChainMo {
  float tensor_scale = 1;
  Defect defect = Defect::None;

  BlockScale block(float block_amax) const {
    float b = defect == Defect::SixInverted ? block_amax / kMaxE2m1 / tensor_scale
                                            : block_amax / (kMaxE2m1 * tensor_scale);
    if (defect == Defect::InverseGlobal) b = block_amax / kMaxE2m1 * tensor_scale;
    if (b == 0 && defect != Defect::GuardMissing) b = 1;
    const float floor = defect == Defect::FloorAdded ? kMinNormalE4m3 : kLeastE4m3;
    if (defect != Defect::FloorMissing) b = max_nan(b, floor);
    BlockScale block;
    block.code = scale_code(b, defect);
    const float kept =
        defect == Defect::ExactScale ? min_nan(b, kMaxE4m3) : scale_value(block.code, defect);
    block.encode = kept * tensor_scale;
    return block;
  }
};

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  return traced_or(c,
                   {codes_spec("codes", rows, columns), scales_spec("scales", rows, columns),
                    scalar_spec("tensor_scale"), values_spec("dequant", c.dtype, rows, columns)});
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  const float largest = calibrated_amax(c, x, defect);
  const float bound = defect == Defect::AmaxWithoutSix ? kMaxE4m3 : kMaxE4m3 * kMaxE2m1;
  const ChainMo chain{.tensor_scale = largest / bound, .defect = defect};
  Result result;
  result.rows =
      quantise(x, {.scale = [&](float block_amax, const Place&) { return chain.block(block_amax); },
                   .divides = true,
                   .policy = {.negative_zero = E2m1NegativeZero::Positive},
                   .defect = defect});
  result.dequant = dequantised(result.rows, [&](float code, float scale, const Place&) {
    const float magnitude = code == 0 && defect != Defect::PositiveZeroMissing ? 0.0F : code;
    return magnitude * (scale * chain.tensor_scale);
  });
  result.values = {{"tensor_scale", {chain.tensor_scale}}, {"tensor_amax", {largest}}};
  return expected_of(outputs(c), inputs, result, defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_modelopt",
    .what = "modelopt: s = e4m3(clamp(bamax/(6 s2), 2^-9, 448)), zero blocks 1, x divided by s s2",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_modelopt"},
    .faults =
        faults_of({Defect::ExactScale, Defect::InverseGlobal, Defect::SixInverted,
                   Defect::FloorAdded, Defect::FloorMissing, Defect::GuardMissing,
                   Defect::AmaxWithoutSix, Defect::NegativeZeroLost, Defect::PositiveZeroMissing}),
}};

}  // namespace
}  // namespace parity::quantize
