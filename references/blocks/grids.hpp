// Items of a vision tower and where their patches lie: grids of t frames of h x w patches, patches
// in order frame, row, column, items one after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "references/blocks/run.hpp"

namespace parity::net {

struct Grid {
  std::int64_t t = 1, h = 1, w = 1;
  std::int64_t patches() const { return t * h * w; }
};
std::vector<Grid> parse_grids(std::string_view text);  // "1x4x2+3x4x2"; UsageError naming the part
std::string print_grids(const std::vector<Grid>&);
std::int64_t patches(const std::vector<Grid>&);
std::vector<std::int64_t> patches_by_item(const std::vector<Grid>&);

// A patch of an item.
struct Place {
  std::int64_t item = 0, t = 0, row = 0, col = 0;
};
std::vector<Place> places(const std::vector<Grid>&);

// Rows of items one after another, and the layout in which every item has as many rows as the
// longest, [items, most, width]: what is past an item's own count is not read, and is `padding`.
template <class T>
Array<T> pad_items(const Array<T>& flat, const std::vector<std::int64_t>& counts, T padding);
template <class T>
Array<T> unpad_items(const Array<T>& padded, const std::vector<std::int64_t>& counts);

// How a table of positions [M,N,D] is read at the grid's rows and columns: the source coordinate
// of d of n is (d + 1/2) M / n - 1/2 (align_corners False). Bilinear clamps it at 0 and the upper
// index at M - 1; bicubic (Keys 1981, a = -3/4) clamps the four indices.
enum class Interpolation : std::uint8_t { Bilinear, Bicubic };
template <class T>
struct Taps {
  std::vector<std::int64_t> index = {};
  std::vector<T> weight = {};
};
// align_corners: the fault's rule, d (M - 1) / (n - 1).
template <class T>
Taps<T> table_taps(Interpolation, std::int64_t d, std::int64_t n, std::int64_t M,
                   bool align_corners);

// Position of every patch [patches,D]: the table at (row, col), and for items of several frames
// the fixed [sin | cos] of t 10000^(-i / (D/2)).
template <class T>
Array<T> positions(Run<T>&, const Array<T>& table_MND, const std::vector<Grid>&, Interpolation);
template <class T>
Array<T> positions_backward(Run<T>&, const Array<T>& table_MND, const Array<T>& dy,
                            const std::vector<Grid>&, Interpolation);

// 2-D rotation of heads of width D: pair 2i turns by col theta^(-4i/D), pair 2i+1 by row
// theta^(-4i/D), i < D/4. A pair is two neighbours, or element j and j + D/2 (halves).
struct GridRope {
  double theta = 1e4;
  bool halves = false;
};
template <class T>
Array<T> rope_cos_sin(Run<T>&, const std::vector<Place>&, std::int64_t D,
                      const GridRope&);  // [patches, D/2, 2]
// Turns x [patches,H,D] by the angles, or back: the backward of a rotation is its inverse.
template <class T>
void rotate(Run<T>&, Array<T>& x_NHD, const Array<T>& cos_sin, const GridRope&, bool back);

}  // namespace parity::net
