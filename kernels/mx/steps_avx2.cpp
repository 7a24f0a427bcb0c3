// Eight lanes.
#include <bit>
#include <cstddef>
#include <cstring>
#include <immintrin.h>
#include <limits>
#include <type_traits>

#include "kernels/mx/steps.hpp"

#define PARITY_LANES 8

namespace parity::mx_kernel {
namespace {
#include "kernels/mx/steps_lanes.inl"
}  // namespace

const Steps kAvx2Steps = steps();

}  // namespace parity::mx_kernel
