// kda.cuda_chunk_sm120_bf16: KDA in chunks of 16 on Blackwell's mma.sync. No machine here runs it.
#include "kernels/blackwell/kda_chunk.cuh"

namespace parity::device::blackwell {
namespace {

struct Sm120 {};
const Register kernel{
    kda::kernel_of<Sm120>("kda.cuda_chunk_sm120_bf16",
                          "chunks of 16, state products on mma.sync; forward only", "sm_120a")};

}  // namespace
}  // namespace parity::device::blackwell
