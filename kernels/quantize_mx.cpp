// quantize.mx_*: MX quantisation and dequantisation on CPUs as torchao's `to_mx`, bit for bit: five
// element formats, four scale modes. x f32 or bf16, dense, rows of multiples of 32. One pass over
// blocks; a group of them shares the vector operations of its scales. Threads take ranges of blocks
// and write disjoint bytes.
#include "kernels/mx/frame.hpp"

namespace parity::mx_kernel {
namespace {

const Contract kContract{.name = "exact_chain",
                         .dtypes = {Dtype::F32, Dtype::BF16},
                         .fidelity = Fidelity::Twin,
                         .invariant = {"threads"}};

const Register plain{KernelDef{
    .op = "quantize",
    .name = "quantize.mx_plain",
    .what = "MX, one element at a time",
    .contract = kContract,
    .refuses = refuses,
    .forward = [](const Launch& launch) { forward(launch, kScalarSteps); },
    .faults = kernel_faults(),
}};

const Register avx2{KernelDef{
    .op = "quantize",
    .name = "quantize.mx_avx2",
    .what = "MX, 8 lanes",
    .needs = "avx2",
    .contract = kContract,
    .refuses = refuses,
    .forward = [](const Launch& launch) { forward(launch, kAvx2Steps); },
}};

const Register avx512{KernelDef{
    .op = "quantize",
    .name = "quantize.mx_avx512",
    .what = "MX, 16 lanes",
    .needs = "avx512",
    .contract = kContract,
    .refuses = refuses,
    .forward = [](const Launch& launch) { forward(launch, kAvx512Steps); },
}};

}  // namespace
}  // namespace parity::mx_kernel
