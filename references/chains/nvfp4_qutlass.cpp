// qutlass's NVFP4 absmax kernel: chain C with the global scale of its tests, 6. Known by formula;
// no recording.
#include "references/chains/chain_c.hpp"

namespace parity::quantize {
namespace {

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  return expected_of(chain_c_outputs(c), inputs, run_chain_c(c, inputs, 6.0F, defect), defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_qutlass",
    .what = "chain C with G = 6, qutlass's absmax kernel; rcp.approx as the exact reciprocal",
    .quantize = quantize,
    .outputs = chain_c_outputs,
    .faults = faults_of({Defect::ExactScale, Defect::InverseGlobal, Defect::FloorAdded,
                         Defect::GuardMissing, Defect::NegativeZeroLost}),
}};

}  // namespace
}  // namespace parity::quantize
