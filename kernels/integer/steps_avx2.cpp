#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <limits>

#include "harness/numeric/formats.hpp"
#include "kernels/integer/steps.hpp"

namespace parity::integer_kernel {
namespace {

constexpr int kLanes = 8;
#include "kernels/integer/steps.inl"

}  // namespace

const Steps kAvx2Steps = steps();

}  // namespace parity::integer_kernel
