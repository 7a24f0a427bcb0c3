// Chain C, the quantisers of inference engines and of CUTLASS, which multiply by reciprocals:
//   G = 2688/amax, or the option global_scale      s = e4m3(G (bamax rcp(6)))
//   enc = s == 0 ? 0 : rcp(s rcp(G))               code = e2m1(x enc)       value = code (s / G)
// rcp is rcp.approx.ftz.f32, modelled as the exact reciprocal rounded to nearest, with subnormal
// arguments and results flushed to zero.
//   source   TensorRT-LLM, vLLM and FlashInfer, cvt_warp_fp16_to_fp4
#pragma once

#include <optional>

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {

float reciprocal_ftz(float x);
// The encode view: the option global_scale, or 2688/amax rounded `roundings` times.
float global_scale_of(const Case&, float amax, int roundings);

struct ChainC {
  float global = 1;
  Defect defect = Defect::None;

  BlockScale block(float block_amax) const;
  float value(float code, float scale) const;
};

// `fixed`: the global scale where the case names none, in place of 2688/amax.
Result run_chain_c(const Case&, const Tensors& inputs, std::optional<float> fixed, Defect);
std::vector<TensorSpec> chain_c_outputs(const Case&);
std::vector<FaultDef> chain_c_faults();

}  // namespace parity::quantize
