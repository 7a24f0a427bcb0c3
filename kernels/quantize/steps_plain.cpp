// Four lanes: the instructions that every x86-64 has.
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "harness/numeric/exact_sum.hpp"
#include "kernels/quantize/steps.hpp"

#define PARITY_LANES 4

namespace parity::nvfp4 {
namespace {
#include "kernels/quantize/steps_lanes.inl"
}  // namespace

const Steps kPlainSteps = steps();

}  // namespace parity::nvfp4
