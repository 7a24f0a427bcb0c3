// Transformer Engine's NVFP4 with NVTE_USE_FAST_MATH=1 (chain A'): scales as in chain A, the factor
// bf16(min(S_enc / s, largest bf16)), and x times it in f32. Division is modelled as exact. Known
// by formula and vectors; no recording.
#include "references/chains/chain_a.hpp"

namespace parity::quantize {
namespace {

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  return chain_a_expected(c, inputs, FormA::Bf16Factor, fault);
}

const Register chain{ChainDef{
    .name = "nvfp4_te_fast",
    .what = "chain A', TE's fast math: enc = bf16(S_enc/s); the hardware's division as exact",
    .quantize = quantize,
    .outputs = chain_a_outputs,
    .faults = faults_of({Defect::RoundingsMissing, Defect::ExactScale, Defect::InverseGlobal,
                         Defect::SixInverted, Defect::FloorAdded, Defect::NegativeZeroLost}),
    .inputs = chain_a_inputs,
}};

}  // namespace
}  // namespace parity::quantize
