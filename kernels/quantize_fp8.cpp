// quantize.fp8_*: FP8 quantisation and dequantisation on CPUs as torchao's float8 training, bit for
// bit: e4m3 and e5m2, one scale a tensor, row, column, 1x128, 128x1 or 128x128. x f32 or bf16,
// dense. Amaxes as integers (so that NaN wins), scales in double, one multiplication and one
// rounding an element; dequantisation divides. Threads take ranges of rows and write disjoint
// bytes.
#include "kernels/fp8/frame.hpp"

namespace parity::fp8_kernel {
namespace {

const Contract kContract{.name = "exact_chain",
                         .dtypes = {Dtype::F32, Dtype::BF16},
                         .fidelity = Fidelity::Twin,
                         .invariant = {"threads"}};

const Register plain{KernelDef{
    .op = "quantize",
    .name = "quantize.fp8_plain",
    .what = "FP8, one element at a time",
    .contract = kContract,
    .refuses = refuses,
    .forward = [](const Launch& launch) { forward(launch, kScalarSteps); },
    .faults = kernel_faults(),
}};

const Register avx2{KernelDef{
    .op = "quantize",
    .name = "quantize.fp8_avx2",
    .what = "FP8, 8 lanes",
    .needs = "avx2",
    .contract = kContract,
    .refuses = refuses,
    .forward = [](const Launch& launch) { forward(launch, kAvx2Steps); },
}};

const Register avx512{KernelDef{
    .op = "quantize",
    .name = "quantize.fp8_avx512",
    .what = "FP8, 16 lanes",
    .needs = "avx512",
    .contract = kContract,
    .refuses = refuses,
    .forward = [](const Launch& launch) { forward(launch, kAvx512Steps); },
}};

}  // namespace
}  // namespace parity::fp8_kernel
