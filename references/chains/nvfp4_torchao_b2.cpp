// torchao's NVFP4 inference, two level.
#include "references/chains/chain_b.hpp"

namespace parity::quantize {
namespace {

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = chain_b_refuses(c, inputs); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  return expected_of(chain_b2_outputs(c), inputs, run_chain_b(c, inputs, FormB::TwoLevel, defect),
                     defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_torchao_b2",
    .what = "chain B, two level: s = e4m3(clamp(bamax/6/pts, 2^-6, 448)), enc = (1/pts)/s",
    .quantize = quantize,
    .outputs = chain_b2_outputs,
    .groups = {"nvfp4_torchao_B2"},
    .faults = chain_b_faults(FormB::TwoLevel),
}};

}  // namespace
}  // namespace parity::quantize
