// torchao 0.18.0's NVFP4 training kernels (chain ): chain A with two roundings before the
// e4m3 cast and a floor of 2^-6, so that a zero block has scale 0x08 and nothing underflows.
// Triton's `/` (div.full.f32, 2 ulp) is modelled as exact. Known by formula and vectors; no
// recording.
#include "references/chains/chain_a.hpp"

namespace parity::quantize {
namespace {

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  return chain_a_expected(c, inputs, FormA::TwoRoundings, fault);
}

const Register chain{ChainDef{
    .name = "nvfp4_ao_018",
    .what = "torchao 0.18.0's training kernels: s = e4m3(clamp((bamax/6) S_enc, 2^-6, 448)), enc = "
            "1/(s S_dec); Triton's division as exact",
    .quantize = quantize,
    .outputs = chain_a_outputs,
    .faults = faults_of({Defect::ExactScale, Defect::ReciprocalOrder, Defect::InverseGlobal,
                         Defect::SixInverted, Defect::FloorMissing, Defect::NegativeZeroLost}),
    .inputs = chain_a_inputs,
}};

}  // namespace
}  // namespace parity::quantize
