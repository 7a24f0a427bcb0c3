// quantize.fp8_*: FP8 quantisation and dequantisation on CPUs as torchao's float8 training, bit for
// bit: e4m3 and e5m2, one scale a tensor, row, column, 1x128, 128x1 or 128x128. x f32 or bf16,
// dense. Amaxes as integers (so that NaN wins), scales in double, one multiplication and one
// rounding an element; dequantisation divides. Threads take ranges of rows and write disjoint
// bytes.
#include "kernels/fp8/frame.hpp"
#include "kernels/quantize/instruction_sets.hpp"

namespace parity::fp8_kernel {
namespace {

template <const Steps& kSteps>
void by(const Launch& launch) {
  forward(launch, kSteps);
}

const KernelDef kPlain{
    .op = "quantize",
    .name = "quantize.fp8_plain",
    .what = "FP8, one element at a time",
    .contract = exact_chain(),
    .refuses = refuses,
    .forward = by<kScalarSteps>,
    .faults = kernel_faults(),
};

const Register plain{kPlain};
const Register avx2{wider(kPlain, "quantize.fp8_avx2", "FP8, 8 lanes", "avx2", by<kAvx2Steps>)};
const Register avx512{
    wider(kPlain, "quantize.fp8_avx512", "FP8, 16 lanes", "avx512", by<kAvx512Steps>)};

}  // namespace
}  // namespace parity::fp8_kernel
