// quantize.nvfp4_*: NVFP4 quantisation and dequantisation on CPUs, bit for bit that of the chains.
// x f32 or bf16, dense. Two passes: |x| reduced over the tensor (as integers, so that NaN wins),
// then blocks of 16: amax, e4m3 scale, encode factor, e2m1 codes. Float operations are single IEEE
// operations, division included; nothing is fused. Threads take ranges of blocks (of rows where
// rows end in a short block) and write disjoint bytes.
#include "kernels/quantize/frame.hpp"
#include "kernels/quantize/instruction_sets.hpp"

namespace parity::nvfp4 {
namespace {

template <const Steps& kSteps>
void by(const Launch& launch) {
  forward(launch, kSteps);
}

const KernelDef kPlain{
    .op = "quantize",
    .name = "quantize.nvfp4_plain",
    .what = "chains A (also tiles, transposed, transformed), B, four over six; 4 lanes, any x86-64",
    .contract = exact_chain(),
    .refuses = refuses,
    .workspace = workspace,
    .forward = by<kPlainSteps>,
    .backward = backward,
    .faults = kernel_faults(),
};

const Register plain{kPlain};
const Register avx2{
    wider(kPlain, "quantize.nvfp4_avx2",
          "chains A (also tiles, transposed, transformed), B, four over six; 8 lanes", "avx2",
          by<kAvx2Steps>)};
const Register avx512{
    wider(kPlain, "quantize.nvfp4_avx512",
          "chains A (also tiles, transposed, transformed), B, four over six; 16 lanes", "avx512",
          by<kAvx512Steps>)};

}  // namespace
}  // namespace parity::nvfp4
