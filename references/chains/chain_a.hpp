// Chain A, one level of fp32 scale over e4m3 block scales, formed without a lower bound and with
// one rounding before the e4m3 cast: Transformer Engine's default and torchao's training kernels.
//
//   S_enc = min(2688 / amax, FLT_MAX); 1 if amax is 0 or that is 0        mult = S_enc fl(1/6)
//   S_dec = 1 / S_enc s     = e4m3(min(bamax mult, 448))       enc = min(1 / (s S_dec), FLT_MAX)
//   code = e2m1(x enc)
#pragma once

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {

struct ChainA {
  float amax = 0;
  float encode = 0;  // S_enc
  float decode = 0;  // S_dec
  Defect defect = Defect::None;

  ChainA(float tensor_amax, Defect);
  BlockScale block(float block_amax) const;
  // Transformer Engine's dequantisation: code * ((s * amax) * fl(1/2688)).
  float value(float code, float scale) const;
};

// Quantises by rows, and by columns where the case has codes_t, with one amax for both.
Result run_chain_a(const Case&, const Tensors& inputs, const E2m1Policy&, Defect);

// `ragged`: rows may end in a short block.
std::vector<FaultDef> chain_a_faults(bool ragged);

}  // namespace parity::quantize
