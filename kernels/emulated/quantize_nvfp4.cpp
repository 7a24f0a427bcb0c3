// quantize.nvfp4_emulated: the kernels of quantize_nvfp4_cuda_sm100a.cu and _sm120a.cu on a CPU.
#include "kernels/blackwell/quantize_nvfp4.cuh"

namespace parity::emulated::blackwell {
namespace {

struct Emulated {};
const Register kernel{quantise::kernel_of<Emulated>(
    "quantize.nvfp4_emulated", "the CUDA kernels' source, its conversions emulated", "")};

}  // namespace
}  // namespace parity::emulated::blackwell
