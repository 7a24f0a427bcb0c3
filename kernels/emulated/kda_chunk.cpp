// kda.emulated_chunk_bf16: the kernels of kda_chunk_cuda_sm100a.cu and _sm120a.cu on a CPU.
#include "kernels/blackwell/kda_chunk.cuh"

namespace parity::emulated::blackwell {
namespace {

struct Emulated {};
const Register kernel{kda::kernel_of<Emulated>(
    "kda.emulated_chunk_bf16", "the CUDA kernels' source, mma.sync emulated; forward only", "")};

}  // namespace
}  // namespace parity::emulated::blackwell
