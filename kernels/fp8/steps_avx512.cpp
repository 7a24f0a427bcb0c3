// Sixteen lanes.
#include <bit>
#include <cstddef>
#include <cstring>
#include <immintrin.h>
#include <limits>
#include <type_traits>

#include "kernels/fp8/steps.hpp"

#define PARITY_LANES 16

namespace parity::fp8_kernel {
namespace {
#include "kernels/fp8/steps_lanes.inl"
}  // namespace

const Steps kAvx512Steps = steps();

}  // namespace parity::fp8_kernel
