// torchao's NVFP4 inference, two level.
#include "references/chains/chain_b.hpp"

namespace parity::quantize {
namespace {

std::vector<TensorSpec> outputs(const Case& c) {
  std::vector<TensorSpec> specs = chain_b_outputs(c);
  specs.push_back(scalar_spec("tensor_scale"));
  return specs;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = chain_b_refuses(c, inputs); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  return expected_of(outputs(c), inputs, run_chain_b(c, inputs, true, defect), defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_torchao_b2",
    .what = "chain B, two level: s = e4m3(clamp(bamax/6/pts, 2^-6, 448)), enc = (1/pts)/s",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_torchao_B2"},
    .faults = chain_b_faults(true),
}};

}  // namespace
}  // namespace parity::quantize
