// compressed-tensors, nvfp4-pack-quantized. R rounds to the input's dtype, so that bf16 tensors
// have a bf16 global scale and a bf16 amax/6:
//   G = fl32(R(R(1/max(amax, 2^-126)) 2688)), 1 where nan or inf          b = R(bamax/6)
//   s = e4m3(G b), 0.125 where zero      c = s / G      code = e2m1(x / c + 0): -0 becomes +0
//   fake_quant = R(code c)     dequant = bf16(code (s / G)), whatever the input
//   source   compressed-tensors 0.20.1: generate_gparam, calculate_qparams, NVFP4PackedCompressor
#include <cmath>

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {
namespace {

struct ChainCt {
  Dtype dtype = Dtype::F32;
  Defect defect = Defect::None;
  float global = 1;

  float stored(float x) const {
    const Dtype to = defect == Defect::RoundingsMissing ? Dtype::F32 : dtype;
    return to == Dtype::BF16 ? float_from_bf16(bf16_from_float(x)) : x;
  }
  float global_of(float amax) const {
    const float g = stored(stored(1 / max_nan(amax, 0x1p-126F)) * 2688.0F);
    const bool guard = defect != Defect::ZeroGuardMissing;
    return guard && !std::isfinite(g) ? 1 : g;
  }
  BlockScale block(float block_amax) const {
    const float b =
        stored(defect == Defect::SixInverted ? block_amax * (1.0F / 6.0F) : block_amax / kMaxE2m1);
    const float scale = defect == Defect::InverseGlobal ? b / global : global * b;
    BlockScale block;
    block.code = scale_code(scale, defect);
    if (block.code == 0 && defect != Defect::GuardMissing) block.code = 0x20;
    const float kept =
        defect == Defect::ExactScale ? min_nan(scale, kMaxE4m3) : scale_value(block.code, defect);
    block.encode = kept / global;
    return block;
  }
};

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  TensorSpec wide = scales_spec("scales_hp", rows, columns);
  wide.role = Role::Output;
  wide.dtype = Dtype::F32;
  return traced_or(
      c, {codes_spec("codes", rows, columns), scales_spec("scales", rows, columns), std::move(wide),
          scalar_spec("tensor_scale"), values_spec("dequant", Dtype::BF16, rows, columns),
          values_spec("fake_quant", c.dtype, rows, columns)});
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  const float largest = calibrated_amax(c, x, defect);
  ChainCt chain{.dtype = c.dtype, .defect = defect};
  chain.global = chain.global_of(largest);
  Result result;
  result.rows =
      quantise(x, {.scale = [&](float block_amax, const Place&) { return chain.block(block_amax); },
                   .divides = true,
                   .policy = {.nan = E2m1Nan::Zero,
                              .negative_zero = defect == Defect::PositiveZeroMissing
                                                   ? E2m1NegativeZero::Keep
                                                   : E2m1NegativeZero::Positive},
                   .defect = defect});
  result.dequant = dequantised(result.rows, [&](float code, float scale, const Place&) {
    return code * (scale / chain.global);
  });
  std::vector<float> wide;
  for (const std::uint8_t s : result.rows.scales) wide.push_back(float_from_e4m3(s));
  result.values = {{"scales_hp", std::move(wide)},
                   {"tensor_scale", {chain.global}},
                   {"tensor_amax", {largest}},
                   {"fake_quant", result.dequant}};
  return expected_of(outputs(c), inputs, result, defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_compressed_tensors",
    .what = "compressed-tensors: G and bamax/6 in the input's dtype, x divided by s/G, zero scales "
            "become 0.125",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_compressed_tensors"},
    .faults = faults_of({Defect::ExactScale, Defect::InverseGlobal, Defect::SixInverted,
                         Defect::ZeroGuardMissing, Defect::GuardMissing, Defect::RoundingsMissing,
                         Defect::PositiveZeroMissing}),
}};

}  // namespace
}  // namespace parity::quantize
