// qutlass's MXFP4 kernels, blocks of 32 with an e8m0 scale that keeps the exponent field of f32:
//   mode=absmax  byte = exponent(amax + 1e-8)                       y = 3 (x / 2^(byte - 127))
//   mode=quest   byte = exponent(sqrt(var) 2.92247856/6 + 1e-8)     y = x / 2^(byte - 127)
// The 3 stays in the scale of the product. var = E[x^2] - E[x]^2 in f32, summed in order (fused
// multiply-adds, as nvcc contracts); a negative one makes the scale 1. Known by formula; no
// recording.
//   source   qutlass, cutlass_extensions/epilogue/threadblock/epilogue_quant.h
#include <bit>
#include <cmath>

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {
namespace {

constexpr std::int64_t kMxBlock = 32;

std::uint8_t exponent_of(float scale) {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 23 & 0xFF);
}

float quest_scale(std::span<const float> block) {
  float sum = 0;
  float squares = 0;
  for (const float x : block) {
    sum += x;
    squares = std::fma(x, x, squares);
  }
  const float mean = sum / 32;
  const float var = std::fma(-mean, mean, squares / 32);
  if (!(var >= 0)) return 1;
  return static_cast<float>(static_cast<double>(std::sqrt(var)) * (2.92247856 / 6.) + 1e-8);
}

std::vector<TensorSpec> outputs(const Case& c) {
  TensorSpec scales = scales_spec("scales", rows_of(c), columns_of(c) / 2);  // blocks of 32
  scales.dtype = Dtype::E8M0;
  return {codes_spec("codes", rows_of(c), columns_of(c)), std::move(scales)};
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kMxBlock != 0) return {.refused = "rows are no multiple of 32"};
  const std::string mode = c.options.get("mode", "absmax");
  if (mode != "absmax" && mode != "quest") return {.refused = "mode is absmax or quest"};
  const bool quest = mode == "quest";
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  Result result;
  result.rows = quantise(
      x, {.scale =
              [&](float block_amax, const Place& at) {
                const float epsilon = defect == Defect::GuardMissing ? 0 : 1e-8F;
                const float scale =
                    quest ? quest_scale(std::span(x.values).subspan(
                                static_cast<std::size_t>(at.row * x.columns + at.column), 32))
                          : block_amax + epsilon;
                BlockScale block;
                block.code = exponent_of(scale);
                if (defect == Defect::ScaleUp && !std::isnan(scale)) ++block.code;
                const auto kept = static_cast<float>(decode(Dtype::E8M0, block.code));
                block.encode = (quest || defect == Defect::AmaxWithoutSix ? 1 : 3) / kept;
                return block;
              },
          .block = kMxBlock,
          .scales = Dtype::E8M0,
          .defect = defect});
  return expected_of(outputs(c), inputs, result, defect);
}

const Register chain{ChainDef{
    .name = "mx_qutlass",
    .what = "qutlass's MXFP4 kernels, absmax and quest: the exponent field as scale",
    .quantize = quantize,
    .outputs = outputs,
    .faults = faults_of({Defect::GuardMissing, Defect::ScaleUp, Defect::AmaxWithoutSix,
                         Defect::HalfAway, Defect::Truncated, Defect::NegativeZeroLost}),
}};

}  // namespace
}  // namespace parity::quantize
