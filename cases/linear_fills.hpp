// Fills for quantised linears: tensors of different sizes, so that no scale passes for another's.
#pragma once

#include "harness/kernel.hpp"

namespace parity::linear_fills {

extern const Fill kNormal, kUneven, kSpread, kOutliers, kIntegers;

Sizes sizes(std::int64_t M, std::int64_t N, std::int64_t K);

}  // namespace parity::linear_fills
