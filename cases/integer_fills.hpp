// Fills for integer quantisers, shared by quantize and fake_quantize: ties of the integers under
// scales that are and are not powers of two, one-sided groups, clipped ends.
#pragma once

#include "harness/kernel.hpp"

namespace parity::integer_fills {

extern const Fill kNormal, kHeavyTail;
extern const Fill kTies;      // scales 2^k: x on k + 1/2 and on the clipped ends
extern const Fill kOddTies;   // scales of any mantissa: x = (k + 1/2) s, where x/s and x (1/s) part
extern const Fill kPositive;  // far from zero, above
extern const Fill kNegative;  // far from zero, below
extern const Fill kZeros;     // zero groups beside others
extern const Fill kTiny;      // below the scales' lower bounds
extern const Fill kAlternating;  // order within a group shows
extern const Fill kCorners;      // rows of all of these but noise: 16 rows

}  // namespace parity::integer_fills
