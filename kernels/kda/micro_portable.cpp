#include "kernels/kda/micro_table.hpp"
#include "kernels/kda/vec_portable.hpp"

namespace parity::kda_kernel {

constexpr Micro kPortable = table<portable::Vec>("portable");

}  // namespace parity::kda_kernel
