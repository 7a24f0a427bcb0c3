// torchao's NVFP4 inference, two level, as eager PyTorch divides by a number on CUDA: times its
// reciprocal (BinaryDivTrueKernel.cu). Known by formula and vectors; no recording.
#include "references/chains/chain_b.hpp"

namespace parity::quantize {
namespace {

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = chain_b_refuses(c, inputs); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  return expected_of(chain_b2_outputs(c), inputs,
                     run_chain_b(c, inputs, FormB::TwoLevelCuda, defect), defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_torchao_b2_cuda",
    .what = "chain B, two level, in eager CUDA: bamax fl(1/6), pts = amax fl(1/2688)",
    .quantize = quantize,
    .outputs = chain_b2_outputs,
    .faults = chain_b_faults(FormB::TwoLevelCuda),
}};

}  // namespace
}  // namespace parity::quantize
