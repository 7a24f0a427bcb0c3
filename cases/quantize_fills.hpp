// Data for quantisers: what decides an amax, a scale, a rounding. Cotangents are plain noise
// whatever a fill does to x.
#pragma once

#include "harness/case.hpp"

namespace parity::quantize_fills {

// Whether the tensor is a cotangent, and then filled.
bool is_cotangent(const RowDraw&, std::span<double> out);
void draw_normal(const RowDraw&, std::span<double> out);
std::uint64_t index_of(const RowDraw&, std::size_t i);  // flat index in the tensor
double ulp(const RowDraw&);                             // of 1 in the storage format of x

Fill normal();
Fill heavy_tail();      // many binades in a block
Fill negative();        // no positive element: a signed maximum is wrong
Fill negative_zeros();  // -0 and what rounds to it
Fill outlier();         // one element decides the scale of all that share it
Fill one_nan();         // a NaN reaches its scale
Fill one_inf();         // an infinite amax
Fill zeros();           // amax 0
Fill least();           // f32 subnormals

}  // namespace parity::quantize_fills
