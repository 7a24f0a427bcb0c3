// Inputs of gemm cases: operands, scale factors, accumulators.
#pragma once

#include "harness/case.hpp"

namespace parity::gemm_cases {

// Real products.
extern const Fill kNormal;
extern const Fill kIntegers;  // exact in any order and any unit

// What tells one matrix unit from another; for bits=.
extern const Fill kCancellation;
extern const Fill kWide;
extern const Fill kEdges;
extern const Fill kAccumulator;
extern const Fill kSubnormals;
extern const Fill kZeros;
extern const Fill kSpecials;

}  // namespace parity::gemm_cases
