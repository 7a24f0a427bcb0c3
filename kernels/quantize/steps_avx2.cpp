// Eight lanes.
#include <bit>
#include <cstddef>
#include <cstring>
#include <immintrin.h>
#include <limits>

#include "harness/numeric/exact_sum.hpp"
#include "kernels/quantize/steps.hpp"

#define PARITY_LANES 8

namespace parity::nvfp4 {
namespace {
#include "kernels/quantize/steps_lanes.inl"
}  // namespace

const Steps kAvx2Steps = steps();

}  // namespace parity::nvfp4
