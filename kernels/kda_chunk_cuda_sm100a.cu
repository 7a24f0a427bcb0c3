// kda.cuda_chunk_sm100_bf16: KDA in chunks of 16 on Blackwell's mma.sync. No machine here runs it.
#include "kernels/blackwell/kda_chunk.cuh"

namespace parity::device::blackwell {
namespace {

struct Sm100 {};
const Register kernel{
    kda::kernel_of<Sm100>("kda.cuda_chunk_sm100_bf16",
                          "chunks of 16, state products on mma.sync; forward only", "sm_100f")};

}  // namespace
}  // namespace parity::device::blackwell
