// gemm.sm120_nvfp4_emulated, gemm.sm120_mxfp8_emulated: the kernels of gemm_cuda_sm120a.cu on a
// CPU.
#include "kernels/blackwell/gemm_mma.cuh"
#include "kernels/emulated/instructions.hpp"

namespace parity::emulated::blackwell {
namespace {

constexpr const char* kWhat = "the CUDA kernel's source, its instructions emulated";
const Register nvfp4{mma_sync::nvfp4("gemm.sm120_nvfp4_emulated", kWhat, "")};
const Register mxfp8{mma_sync::mxfp8("gemm.sm120_mxfp8_emulated", kWhat, "")};

}  // namespace
}  // namespace parity::emulated::blackwell
