// Pictures of one tensor as inline SVG: no script, no fixed colour (classes, so that the page's
// light and dark schemes apply). Numbers are rounded to what a screen shows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record.hpp"

namespace parity::reports::svg {

// Steps of the colour scale of shares of the bound: 0 (far below) .. kSteps-1 (far above); kOver is
// the first over it.
inline constexpr int kSteps = 9;
inline constexpr int kOver = 6;
int step_of(double bound_used);
std::string step_words(int step);  // "0.1 to 0.3"

// rows x cols, coloured by share of the bound; lines every `chunk` indices of the axis "t" (0:
// none). `rows` and `cols` are the true extents of the two axes (a map is binned).
struct Extents {
  std::int64_t rows = 0, cols = 0, chunk = 0;
};
std::string heatmap(const Heatmap&, const Extents&);
// The same by a colour scale of its own: a step for a cell.
std::string heatmap(const Heatmap&, const Extents&, std::string_view what,
                    const std::function<int(double)>& step);

// How often each code occurs, in the order of the values that they stand for; on a log scale.
std::string code_histogram(const std::vector<double>& values,
                           const std::vector<std::int64_t>& counts);

// log2-ulp histogram of both signs: bars of the candidate, outline of the base.
std::string ulp_histogram(const std::vector<std::int64_t>& candidate,
                          const std::vector<std::int64_t>& base);

// Largest share of the bound per index of one axis, the bound drawn, with a line at each multiple
// of `chunk`.
std::string profile(const AxisProfile&, std::int64_t extent, std::int64_t chunk);

// Error against magnitude, shaded by count, with the bound drawn where there is one.
std::string scatter(const Scatter&);

// Errors layer by layer, on a log scale: a pale bar up to what the whole run has, a full one up to
// what the layer has by itself, its budget as a line across. Two groups, left to right.
struct LayerBar {
  std::string label = {};  // "7"
  double whole = 0, own = 0, budget = 0;
  bool over = false;
};
struct LayerBars {
  std::string title = {};
  std::vector<LayerBar> bars = {};
};
std::string layers(const std::vector<LayerBars>& groups);

}  // namespace parity::reports::svg
