// gemm.sm120_nvfp4_cuda, gemm.sm120_mxfp8_cuda: block-scaled GEMMs of Blackwell. No machine here
// runs them: what is known of them is what their emulated builds (kernels/emulated) and their
// disassembly show.
#include "kernels/blackwell/gemm_mma.cuh"

namespace parity::device::blackwell {
namespace {

constexpr const char* kWhat =
    "mma.sync block_scale, scales in registers; tiles by bulk tensor copies";
const Register nvfp4{mma_sync::nvfp4("gemm.sm120_nvfp4_cuda", kWhat, "sm_120a")};
const Register mxfp8{mma_sync::mxfp8("gemm.sm120_mxfp8_cuda", kWhat, "sm_120a")};

}  // namespace
}  // namespace parity::device::blackwell
