// quantize.nvfp4_sm100_cuda: NVFP4 by the conversion instructions of sm_100. No machine here runs
// it.
#include "kernels/blackwell/quantize_nvfp4.cuh"

namespace parity::device::blackwell {
namespace {

struct Sm100 {};
const Register kernel{quantise::kernel_of<Sm100>(
    "quantize.nvfp4_sm100_cuda", "chains A and B by hardware conversions, one block a thread",
    "sm_100f")};

}  // namespace
}  // namespace parity::device::blackwell
