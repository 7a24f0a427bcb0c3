#include "references/chains/chain_a.hpp"

#include <limits>

namespace parity::quantize {
namespace {

constexpr float kFltMax = std::numeric_limits<float>::max();
constexpr float kSixth = 1.0F / 6.0F;  // 0x3E2AAAAB
constexpr float kPer2688 = 1.0F / 2688.0F;

}  // namespace

ChainA::ChainA(float tensor_amax, Defect d) : amax(tensor_amax), defect(d) {
  const float bound = d == Defect::AmaxWithoutSix ? kMaxE4m3 : kMaxE4m3 * kMaxE2m1;
  if (d == Defect::ZeroGuardMissing) {
    encode = bound / amax;
  } else {
    encode = min_nan(bound / amax, kFltMax);
    if (amax == 0 || encode == 0) encode = 1;  // the second: amax is inf
  }
  if (d == Defect::InverseGlobal) encode = 1 / encode;
  decode = 1 / encode;
}

BlockScale ChainA::block(float block_amax) const {
  float scale = block_amax * (encode * kSixth);
  if (defect == Defect::SixInverted) scale = block_amax / kMaxE2m1 * encode;
  if (defect == Defect::FloorAdded) scale = max_nan(scale, kMinNormalE4m3);
  BlockScale block;
  block.code = scale_code(scale, defect);
  const float kept =
      defect == Defect::ExactScale ? min_nan(scale, kMaxE4m3) : scale_value(block.code, defect);
  block.encode = min_nan(1 / (kept * decode), kFltMax);
  if (defect == Defect::ReciprocalOrder) block.encode = min_nan(encode / kept, kFltMax);
  return block;
}

float ChainA::value(float code, float scale) const {
  if (defect == Defect::DequantOrder) return code * scale * amax * kPer2688;
  if (defect == Defect::InverseGlobal) return code * (scale / amax);
  return code * (scale * amax * kPer2688);
}

Result run_chain_a(const Case& c, const Tensors& inputs, const E2m1Policy& policy, Defect defect) {
  const Matrix x = matrix_of(inputs.at("x"));
  const ChainA a(calibrated_amax(c, x, defect), defect);
  const Chain chain{.scale = [&](float block_amax) { return a.block(block_amax); },
                    .policy = policy,
                    .defect = defect};
  Result result;
  result.rows = quantise(x, chain);
  if (c.options.flag("transpose")) result.columns = quantise(transposed(x), chain);
  result.dequant =
      dequantised(result.rows, [&](float code, float scale) { return a.value(code, scale); });
  result.scalars = {
      {"amax", a.amax}, {"amax_row", a.amax}, {"amax_col", a.amax}, {"tensor_scale", a.encode}};
  return result;
}

std::vector<FaultDef> chain_a_faults(bool ragged) {
  std::vector<Defect> defects = {Defect::ExactScale,       Defect::ReciprocalOrder,
                                 Defect::InverseGlobal,    Defect::SixInverted,
                                 Defect::FloorAdded,       Defect::ZeroGuardMissing,
                                 Defect::ScaleImplicitOne, Defect::NegativeZeroLost};
  if (ragged) defects.push_back(Defect::StaleTail);
  return faults_of(defects);
}

}  // namespace parity::quantize
