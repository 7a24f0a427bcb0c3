// CUTLASS's epilogue that makes block scales (LinCombBlockScaleFactor): chain D.
//   s = e4m3(bamax (norm rcp(6)))     enc = min(norm rcp(s), FLT_MAX)     code = e2m1(x enc)
// norm is chain A's S_enc, or the option global_scale; rcp as in chain C. Known by formula and
// vectors; no recording.
#include <limits>

#include "references/chains/chain_a.hpp"
#include "references/chains/chain_c.hpp"

namespace parity::quantize {
namespace {

struct ChainD {
  float norm = 1;
  Defect defect = Defect::None;

  BlockScale block(float block_amax) const {
    const float scale = defect == Defect::SixInverted
                            ? block_amax / kMaxE2m1 * norm
                            : block_amax * (norm * reciprocal_ftz(kMaxE2m1));
    BlockScale block;
    block.code =
        scale_code(defect == Defect::FloorAdded ? max_nan(scale, kMinNormalE4m3) : scale, defect);
    const float kept =
        defect == Defect::ExactScale ? min_nan(scale, kMaxE4m3) : scale_value(block.code, defect);
    block.encode = min_nan(norm * reciprocal_ftz(kept), std::numeric_limits<float>::max());
    if (defect == Defect::ReciprocalOrder) block.encode = norm / kept;
    return block;
  }
};

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  const float largest = calibrated_amax(c, x, defect);
  const bool given = !c.options.get("global_scale", "").empty();
  const ChainD d{.norm = given ? global_scale_of(c, largest, 1) : ChainA(largest, defect).encode,
                 .defect = defect};
  Result result;
  result.rows =
      quantise(x, {.scale = [&](float block_amax, const Place&) { return d.block(block_amax); },
                   .defect = defect});
  result.dequant = dequantised(
      result.rows, [&](float code, float scale, const Place&) { return code * (scale / d.norm); });
  result.values = {{"tensor_scale", {d.norm}}, {"tensor_amax", {largest}}};
  return expected_of(chain_c_outputs(c), inputs, result, defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_cutlass",
    .what = "chain D, CUTLASS's epilogue: s = e4m3(bamax (norm rcp(6))), enc = norm rcp(s); "
            "rcp.approx as the exact reciprocal",
    .quantize = quantize,
    .outputs = chain_c_outputs,
    .faults = faults_of({Defect::ExactScale, Defect::ReciprocalOrder, Defect::SixInverted,
                         Defect::FloorAdded, Defect::NegativeZeroLost}),
}};

}  // namespace
}  // namespace parity::quantize
