// quantize.nvfp4_*: NVFP4 quantisation and dequantisation on CPUs, bit for bit that of the chains.
// x f32 or bf16, dense. Two passes: |x| reduced over the tensor (as integers, so that NaN wins),
// then blocks of 16: amax, e4m3 scale, encode factor, e2m1 codes. Float operations are single IEEE
// operations, division included; nothing is fused. Threads take ranges of blocks (of rows where
// rows end in a short block) and write disjoint bytes.
#include "kernels/quantize/frame.hpp"

namespace parity::nvfp4 {
namespace {

const Contract kContract{.name = "exact_chain",
                         .dtypes = {Dtype::F32, Dtype::BF16},
                         .fidelity = Fidelity::Twin,
                         .invariant = {"threads"}};

const Register plain{KernelDef{
    .op = "quantize",
    .name = "quantize.nvfp4_plain",
    .what = "chains A (also tiles, transposed, transformed), B, four over six; 4 lanes, any x86-64",
    .contract = kContract,
    .refuses = refuses,
    .workspace = workspace,
    .forward = [](const Launch& launch) { forward(launch, kPlainSteps); },
    .backward = backward,
    .faults = kernel_faults(),
}};

const Register avx2{KernelDef{
    .op = "quantize",
    .name = "quantize.nvfp4_avx2",
    .what = "chains A (also tiles, transposed, transformed), B, four over six; 8 lanes",
    .needs = "avx2",
    .contract = kContract,
    .refuses = refuses,
    .workspace = workspace,
    .forward = [](const Launch& launch) { forward(launch, kAvx2Steps); },
    .backward = backward,
}};

const Register avx512{KernelDef{
    .op = "quantize",
    .name = "quantize.nvfp4_avx512",
    .what = "chains A (also tiles, transposed, transformed), B, four over six; 16 lanes",
    .needs = "avx512",
    .contract = kContract,
    .refuses = refuses,
    .workspace = workspace,
    .forward = [](const Launch& launch) { forward(launch, kAvx512Steps); },
    .backward = backward,
}};

}  // namespace
}  // namespace parity::nvfp4
