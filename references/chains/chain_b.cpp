#include "references/chains/chain_b.hpp"

namespace parity::quantize {
namespace {

constexpr float kSixth = 1.0F / 6.0F;
constexpr float kPer2688 = 1.0F / 2688.0F;

}  // namespace

BlockScale ChainB::block(float block_amax) const {
  const bool cuda = form == FormB::TwoLevelCuda;
  const bool product = cuda != (defect == Defect::SixInverted);
  float scale = product ? block_amax * kSixth : block_amax / kMaxE2m1;
  if (!one_level())
    scale = defect == Defect::InverseGlobal ? scale * tensor_scale : scale / tensor_scale;
  if (defect != Defect::FloorMissing) scale = max_nan(scale, kMinNormalE4m3);
  BlockScale block;
  block.code = scale_code(scale, defect);
  const float kept =
      defect == Defect::ExactScale ? min_nan(scale, kMaxE4m3) : scale_value(block.code, defect);
  if (one_level()) {
    block.encode = 1 / kept;
  } else if (defect == Defect::ReciprocalOrder) {
    block.encode = 1 / (tensor_scale * kept);
  } else {
    block.encode = 1 / tensor_scale / kept;
  }
  return block;
}

float ChainB::value(float code, float scale) const {
  if (one_level()) return code * scale;
  if (defect == Defect::DequantOrder) return code * scale * tensor_scale;
  if (defect == Defect::InverseGlobal) return code * (scale / tensor_scale);
  return code * (tensor_scale * scale);
}

std::string chain_b_refuses(const Case& c, const Tensors& inputs) {
  if (inputs.at("x").spec.dims.size() < 2) return "a tensor of one axis has no rows to block";
  if (columns_of(c) % kBlock != 0) return "rows are no multiple of 16";
  return "";
}

Result run_chain_b(const Case& c, const Tensors& inputs, FormB form, Defect defect) {
  const Matrix x = matrix_of(inputs.at("x"));
  ChainB b{.form = form, .defect = defect};
  const float largest = calibrated_amax(c, x, defect);
  if (!b.one_level()) {
    const float bound = defect == Defect::AmaxWithoutSix ? kMaxE4m3 : kMaxE4m3 * kMaxE2m1;
    b.tensor_scale = form == FormB::TwoLevelCuda && defect != Defect::AmaxWithoutSix
                         ? largest * kPer2688
                         : largest / bound;
  }
  Result result;
  result.rows =
      quantise(x, {.scale = [&](float block_amax, const Place&) { return b.block(block_amax); },
                   .policy = {.nan = E2m1Nan::BitTrick},
                   .defect = defect});
  result.dequant = dequantised(
      result.rows, [&](float code, float scale, const Place&) { return b.value(code, scale); });
  result.values = {{"tensor_scale", {b.tensor_scale}}, {"tensor_amax", {largest}}};
  return result;
}

std::vector<TensorSpec> chain_b_outputs(const Case& c) {
  std::vector<TensorSpec> specs = {codes_spec("codes", rows_of(c), columns_of(c)),
                                   scales_spec("scales", rows_of(c), columns_of(c))};
  for (TensorSpec& spec : optional_specs(c)) specs.push_back(std::move(spec));
  return traced_or(c, std::move(specs));
}

std::vector<TensorSpec> chain_b2_outputs(const Case& c) {
  std::vector<TensorSpec> specs = chain_b_outputs(c);
  if (!c.options.flag("trace")) specs.push_back(scalar_spec("tensor_scale"));
  return specs;
}

std::vector<FaultDef> chain_b_faults(FormB form) {
  std::vector<Defect> defects = {Defect::ExactScale, Defect::SixInverted, Defect::FloorMissing,
                                 Defect::ScaleOverflow, Defect::NegativeZeroLost};
  if (form != FormB::OneLevel)
    for (const Defect d : {Defect::ReciprocalOrder, Defect::InverseGlobal, Defect::AmaxWithoutSix,
                           Defect::DequantOrder})
      defects.push_back(d);
  return faults_of(defects);
}

}  // namespace parity::quantize
