// Data for NVFP4 chains. A tensor amax of 2688 makes the tensor scale 1 in every chain, so that
// block scales and ties can be placed exactly: a block amax of 6 s has the scale s, and x = s t
// lies on the threshold t of e2m1.
#pragma once

#include "harness/case.hpp"

namespace parity::nvfp4_fills {

Fill ties();         // x on the thresholds of e2m1, scales powers of two
Fill beside_ties();  // x an ulp beside the thresholds
Fill scale_ties();   // block scales on and beside the midpoints of e4m3
Fill tiny_blocks();  // subnormal and underflowing scales
Fill zero_blocks();  // every third block is zero
Fill alternating();  // order inside a block shows
Fill beyond();       // more than 448 * 6: scales and codes saturate
Fill splits();       // known answers at which chains part, by seed
Fill edges();        // f32 numbers around every edge: block scales and codes at which chains part
Fill corners();      // eight rows of all that one tensor scale allows
Fill choices();      // blocks that 4 fits, that 6 fits, and ties between them

}  // namespace parity::nvfp4_fills
