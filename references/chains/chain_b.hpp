// Chain B, torchao's NVFP4 inference: the block scale in units of the tensor's, clamped below at
// the smallest normal e4m3, so that subnormal scales never occur and a zero block gets 0x08.
//
//   one level  s = e4m3(clamp(bamax/6, 2^-6, 448))           enc = 1 / s          value = code s
//   two level  s = e4m3(clamp((bamax/6) / pts, 2^-6, 448))   enc = (1 / pts) / s
//              pts = amax/2688                               value = code (pts s)
// Eager PyTorch on CUDA multiplies by fl(1/6) and fl(1/2688) where a CPU divides.
//   source   torchao 0.18.0, prototype/mx_formats/nvfp4_tensor.py
#pragma once

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {

enum class FormB : std::uint8_t { OneLevel, TwoLevel, TwoLevelCuda };

struct ChainB {
  FormB form = FormB::OneLevel;
  float tensor_scale = 1;  // pts, the decode view
  Defect defect = Defect::None;

  BlockScale block(float block_amax) const;
  float value(float code, float scale) const;
  bool one_level() const { return form == FormB::OneLevel; }
};

// Why torchao refuses the shape; "" = it does not.
std::string chain_b_refuses(const Case&, const Tensors& inputs);
Result run_chain_b(const Case&, const Tensors& inputs, FormB, Defect);
std::vector<TensorSpec> chain_b_outputs(const Case&);  // without tensor_scale
std::vector<TensorSpec> chain_b2_outputs(const Case&);
std::vector<FaultDef> chain_b_faults(FormB);

}  // namespace parity::quantize
