// A picture as a list of shapes, from which both an SVG and a PNG are written, so that they show
// the same. Units are pixels of the SVG, from the upper left corner.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace parity::reports {

enum class Ink { Paper, Text, Soft, Line, Outer, Inner, Median, Candidate, Mark };
inline constexpr std::size_t kInks = 9;

struct Dot {
  double x = 0, y = 0;
};

struct Shape {
  enum class Kind { Area, Stroke, Label } kind = Kind::Stroke;
  Ink ink = Ink::Text;
  std::vector<Dot> dots = {};  // a label: where its text begins, is centred, or ends
  double width = 1;            // of a stroke; a label: the height of its capitals
  bool dashed = false;
  std::string text = {};
  int anchor = -1;  // -1 begins there, 0 is centred, 1 ends there
};

struct Drawing {
  double width = 0, height = 0;
  std::string label = {};  // what it shows, for who cannot see it
  std::vector<Shape> shapes = {};

  void area(Ink, std::vector<Dot>);
  void stroke(Ink, std::vector<Dot>, double width, bool dashed = false);
  void text(Ink, Dot, std::string_view, double size, int anchor);
};

// Colours are classes of the page where it is a part of one; `alone` brings its own style, light
// and dark as the reader's system asks.
std::string svg_of(const Drawing&, bool alone);
std::string png_of(const Drawing&, bool dark);  // two pixels for each of the drawing's

std::string_view drawing_style();  // CSS of the classes

}  // namespace parity::reports
