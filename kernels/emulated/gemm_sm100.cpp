// gemm.sm100_nvfp4_emulated, gemm.sm100_mxfp8_emulated: the kernels of gemm_cuda_sm100a.cu on a
// CPU.
#include "kernels/blackwell/gemm_tcgen05.cuh"
#include "kernels/emulated/instructions.hpp"

namespace parity::emulated::blackwell {
namespace {

constexpr const char* kWhat = "the CUDA kernel's source, its instructions emulated";
const Register nvfp4{tcgen05::nvfp4("gemm.sm100_nvfp4_emulated", kWhat, "")};
const Register mxfp8{tcgen05::mxfp8("gemm.sm100_mxfp8_emulated", kWhat, "")};

}  // namespace
}  // namespace parity::emulated::blackwell
