#include "references/chains/chain_c.hpp"

#include <cmath>
#include <limits>

namespace parity::quantize {
namespace {

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}

}  // namespace

float reciprocal_ftz(float x) { return flushed(1 / flushed(x)); }

float global_scale_of(const Case& c, float amax, int roundings) {
  if (!c.options.get("global_scale", "").empty())
    return static_cast<float>(c.options.real("global_scale", 1));
  return roundings == 1 ? 2688.0F / amax : 1 / amax * 2688.0F;
}

BlockScale ChainC::block(float block_amax) const {
  const float sixth =
      defect == Defect::SixInverted ? block_amax / kMaxE2m1 : block_amax * reciprocal_ftz(kMaxE2m1);
  const float scale = defect == Defect::InverseGlobal ? sixth / global : global * sixth;
  BlockScale block;
  block.code =
      scale_code(defect == Defect::FloorAdded ? max_nan(scale, kMinNormalE4m3) : scale, defect);
  const float kept =
      defect == Defect::ExactScale ? min_nan(scale, kMaxE4m3) : scale_value(block.code, defect);
  block.encode = reciprocal_ftz(kept * reciprocal_ftz(global));
  if (defect == Defect::ReciprocalOrder) block.encode = global / kept;
  if (kept == 0 && defect != Defect::GuardMissing) block.encode = 0;
  return block;
}

float ChainC::value(float code, float scale) const {
  return defect == Defect::DequantOrder ? code * scale / global : code * (scale / global);
}

Result run_chain_c(const Case& c, const Tensors& inputs, std::optional<float> fixed,
                   Defect defect) {
  const Matrix x = matrix_of(inputs.at("x"));
  const float largest = calibrated_amax(c, x, defect);
  const float reached = defect == Defect::AmaxWithoutSix ? largest * kMaxE2m1 : largest;
  const bool named = !c.options.get("global_scale", "").empty();
  const ChainC chain{.global = fixed && !named ? *fixed : global_scale_of(c, reached, 1),
                     .defect = defect};
  Result result;
  result.rows =
      quantise(x, {.scale = [&](float block_amax, const Place&) { return chain.block(block_amax); },
                   .defect = defect});
  result.dequant = dequantised(
      result.rows, [&](float code, float scale, const Place&) { return chain.value(code, scale); });
  result.values = {{"tensor_scale", {chain.global}}, {"tensor_amax", {largest}}};
  return result;
}

std::vector<TensorSpec> chain_c_outputs(const Case& c) {
  std::vector<TensorSpec> specs = {codes_spec("codes", rows_of(c), columns_of(c)),
                                   scales_spec("scales", rows_of(c), columns_of(c)),
                                   scalar_spec("tensor_scale")};
  for (TensorSpec& spec : optional_specs(c)) specs.push_back(std::move(spec));
  return traced_or(c, std::move(specs));
}

std::vector<FaultDef> chain_c_faults() {
  return faults_of({Defect::ExactScale, Defect::ReciprocalOrder, Defect::InverseGlobal,
                    Defect::SixInverted, Defect::FloorAdded, Defect::GuardMissing,
                    Defect::AmaxWithoutSix, Defect::NegativeZeroLost});
}

}  // namespace parity::quantize
