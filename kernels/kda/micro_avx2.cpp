#include "kernels/kda/micro_table.hpp"
#include "kernels/kda/vec_avx2.hpp"

namespace parity::kda_kernel {

constexpr Micro kAvx2 = table<avx2::Vec>("avx2");

}  // namespace parity::kda_kernel
