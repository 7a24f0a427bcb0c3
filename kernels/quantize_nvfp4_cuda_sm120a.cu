// quantize.nvfp4_sm120_cuda: NVFP4 by the conversion instructions of sm_120. No machine here runs
// it.
#include "kernels/blackwell/quantize_nvfp4.cuh"

namespace parity::device::blackwell {
namespace {

struct Sm120 {};
const Register kernel{quantise::kernel_of<Sm120>(
    "quantize.nvfp4_sm120_cuda", "chains A and B by hardware conversions, one block a thread",
    "sm_120a")};

}  // namespace
}  // namespace parity::device::blackwell
