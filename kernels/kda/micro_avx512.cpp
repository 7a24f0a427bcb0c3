#include "kernels/kda/micro_table.hpp"
#include "kernels/kda/vec_avx512.hpp"

namespace parity::kda_kernel {

constexpr Micro kAvx512 = table<avx512::Vec>("avx512");

}  // namespace parity::kda_kernel
