// Areas of pixels, drawn with smooth edges.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reports/drawing.hpp"

namespace parity::reports {

using Colour = std::array<std::uint8_t, 3>;

class Raster {
 public:
  Raster(int width, int height);
  // Polygons filled together: where they overlap they count once (nonzero winding in each).
  void fill(std::span<const std::vector<Dot>> polygons, Colour);
  // A line of that width through the dots, with round ends; one dot is a disc.
  void stroke(std::span<const Dot> dots, double width, Colour);

  int width() const { return width_; }
  int height() const { return height_; }
  std::span<const std::uint8_t> pixels() const { return pixels_; }  // rows of RGB

 private:
  int width_, height_;
  std::vector<std::uint8_t> pixels_;
  std::vector<float> cover_;
};

std::string png(const Raster&);  // 8 bits, RGB

}  // namespace parity::reports
