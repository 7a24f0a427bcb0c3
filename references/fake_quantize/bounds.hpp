// Bounds of what fake quantisation leaves open: sums whose order a source does not state. All else
// is equal bit for bit.
#pragma once

#include "harness/registry.hpp"

namespace parity::fake_quantize {

Bound bound(const Case&, const Contract&, const TensorSpec&);

// The unit in which an absolute allowance is written into a magnitude companion: 2^-24.
inline constexpr double kUnit = 0x1p-24;

}  // namespace parity::fake_quantize
