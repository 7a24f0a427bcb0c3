// Letters as strokes, for pictures that are drawn without a font: printable ASCII on a grid of 4 x
// 6, with two rows below the line.
#pragma once

#include <string_view>
#include <vector>

#include "reports/drawing.hpp"

namespace parity::reports {

struct Glyph {
  std::vector<std::vector<Dot>> strokes = {};  // y grows upwards from the line; capitals are 6 high
  double advance = 6;
};
Glyph glyph(char c);                  // a box for what has none
double text_width(std::string_view);  // in the same units; any byte beyond ASCII counts as nothing

}  // namespace parity::reports
