// Data for quantisers, and how their case sets are put together: what decides an amax, a scale, a
// rounding. Cotangents are plain noise whatever a fill does to x.
#pragma once

#include <array>

#include "harness/case.hpp"

namespace parity::quantize_fills {

// Whether the tensor is a cotangent, and then filled.
bool is_cotangent(const RowDraw&, std::span<double> out);
void draw_normal(const RowDraw&, std::span<double> out);
std::uint64_t index_of(const RowDraw&, std::size_t i);  // flat index in the tensor
double ulp(const RowDraw&);                             // of 1 in the storage format of x

// Rows that fills are made of.
void draw_negative(const RowDraw&, std::span<double> out);
void draw_negative_zeros(const RowDraw&, std::span<double> out);
void draw_zeros(const RowDraw&, std::span<double> out);
void draw_least(const RowDraw&, std::span<double> out);
void draw_nan(const RowDraw&, std::span<double> out);       // one in the row
void draw_infinity(const RowDraw&, std::span<double> out);  // one in the row

// Row r is drawn by the r-th of them, in turn: one matrix holds what scales of a row or a block
// keep apart.
template <void (*... kDraws)(const RowDraw&, std::span<double>)>
void in_turn(const RowDraw& d, std::span<double> out) {
  constexpr std::array draws{kDraws...};
  if (!is_cotangent(d, out)) draws[static_cast<std::size_t>(d.row) % draws.size()](d, out);
}

Fill normal();
Fill heavy_tail();      // many binades in a block
Fill negative();        // no positive element: a signed maximum is wrong
Fill negative_zeros();  // -0 and what rounds to it
Fill outlier();         // one element decides the scale of all that share it
Fill one_nan();         // a NaN reaches its scale
Fill one_inf();         // an infinite amax
Fill zeros();           // amax 0
Fill least();           // f32 subnormals

Sizes matrix(std::int64_t M, std::int64_t K);
std::vector<Options> joined(std::vector<Options> a, const std::vector<Options>& b);
Options with(Options, const char* name, const char* value);

// Case sets of the op quantize, in f32 and bf16 where the set names no dtypes: probes demand bits;
// noise, of the smoke lane, also that zeros, copies and other seeds fail, but for what it exempts.
CaseSet smoke_probes(CaseSet);
CaseSet long_probes(CaseSet);
CaseSet noise(CaseSet);

}  // namespace parity::quantize_fills
