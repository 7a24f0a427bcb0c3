// gemm.sm100_nvfp4_cuda, gemm.sm100_mxfp8_cuda: block-scaled GEMMs of Blackwell. No machine here
// runs them: what is known of them is what their emulated builds (kernels/emulated) and their
// disassembly show.
#include "kernels/blackwell/gemm_tcgen05.cuh"

namespace parity::device::blackwell {
namespace {

constexpr const char* kWhat =
    "tcgen05.mma, accumulator and scales in tensor memory; tiles by bulk tensor copies";
const Register nvfp4{tcgen05::nvfp4("gemm.sm100_nvfp4_cuda", kWhat, "sm_100f")};
const Register mxfp8{tcgen05::mxfp8("gemm.sm100_mxfp8_cuda", kWhat, "sm_100f")};

}  // namespace
}  // namespace parity::device::blackwell
