// quantize.mx_*: MX quantisation and dequantisation on CPUs as torchao's `to_mx`, bit for bit: five
// element formats, four scale modes. x f32 or bf16, dense, rows of multiples of 32. One pass over
// blocks; a group of them shares the vector operations of its scales. Threads take ranges of blocks
// and write disjoint bytes.
#include "kernels/mx/frame.hpp"
#include "kernels/quantize/instruction_sets.hpp"

namespace parity::mx_kernel {
namespace {

template <const Steps& kSteps>
void by(const Launch& launch) {
  forward(launch, kSteps);
}

const KernelDef kPlain{
    .op = "quantize",
    .name = "quantize.mx_plain",
    .what = "MX, one element at a time",
    .contract = exact_chain(),
    .refuses = refuses,
    .forward = by<kScalarSteps>,
    .faults = kernel_faults(),
};

const Register plain{kPlain};
const Register avx2{wider(kPlain, "quantize.mx_avx2", "MX, 8 lanes", "avx2", by<kAvx2Steps>)};
const Register avx512{
    wider(kPlain, "quantize.mx_avx512", "MX, 16 lanes", "avx512", by<kAvx512Steps>)};

}  // namespace
}  // namespace parity::mx_kernel
