#include "reports/raster.hpp"

#include <algorithm>
#include <cmath>

namespace parity::reports {
namespace {

constexpr int kLines = 4;  // scan lines of a pixel

// How much of each pixel of a row [from, to) covers, added.
void add_span(std::span<float> row, double from, double to, float weight) {
  from = std::clamp(from, 0.0, static_cast<double>(row.size()));
  to = std::clamp(to, 0.0, static_cast<double>(row.size()));
  for (auto x = static_cast<std::size_t>(from); x < row.size() && static_cast<double>(x) < to; ++x)
    row[x] += weight * static_cast<float>(std::min(to, static_cast<double>(x + 1)) -
                                          std::max(from, static_cast<double>(x)));
}

struct Extent {
  double top = 0, bottom = 0;
};
Extent extent_of(std::span<const Dot> polygon) {
  if (polygon.empty()) return {};
  const auto [low, high] = std::ranges::minmax(polygon, {}, &Dot::y);
  return {low.y, high.y};
}

struct Crossing {
  double x = 0;
  int turn = 0;
};

}  // namespace

Raster::Raster(int width, int height)
    : width_(width),
      height_(height),
      pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3, 255),
      cover_(static_cast<std::size_t>(width)) {}

void Raster::fill(std::span<const std::vector<Dot>> polygons, Colour colour) {
  double top = height_, bottom = 0;
  std::vector<Extent> extents;
  for (const auto& polygon : polygons) {
    const Extent e = extents.emplace_back(extent_of(polygon));
    top = std::min(top, e.top);
    bottom = std::max(bottom, e.bottom);
  }
  const int first = std::max(0, static_cast<int>(std::floor(top)));
  const int last = std::min(height_ - 1, static_cast<int>(std::floor(bottom)));
  std::vector<Crossing> crossings;
  for (int y = first; y <= last; ++y) {
    std::ranges::fill(cover_, 0.0F);
    for (int line = 0; line < kLines; ++line) {
      const double at = y + (line + 0.5) / kLines;
      for (std::size_t p = 0; p < polygons.size(); ++p) {
        if (at < extents[p].top || at > extents[p].bottom) continue;
        const std::vector<Dot>& polygon = polygons[p];
        crossings.clear();
        for (std::size_t i = 0; i < polygon.size(); ++i) {
          const Dot a = polygon[i], b = polygon[(i + 1) % polygon.size()];
          if ((a.y <= at) == (b.y <= at)) continue;
          crossings.push_back({a.x + (at - a.y) / (b.y - a.y) * (b.x - a.x), a.y <= at ? 1 : -1});
        }
        std::ranges::sort(crossings, {}, &Crossing::x);
        int winding = 0;
        for (std::size_t i = 0; i + 1 < crossings.size(); ++i) {
          winding += crossings[i].turn;
          if (winding != 0) add_span(cover_, crossings[i].x, crossings[i + 1].x, 1.0F / kLines);
        }
      }
    }
    for (int x = 0; x < width_; ++x) {
      const float cover = std::min(1.0F, cover_[static_cast<std::size_t>(x)]);
      if (cover <= 0) continue;
      std::uint8_t* pixel =
          &pixels_[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                    static_cast<std::size_t>(x)) *
                   3];
      for (std::size_t c = 0; c < 3; ++c)
        pixel[c] = static_cast<std::uint8_t>(std::lround(
            static_cast<float>(pixel[c]) * (1 - cover) + static_cast<float>(colour[c]) * cover));
    }
  }
}

void Raster::stroke(std::span<const Dot> dots, double width, Colour colour) {
  std::vector<std::vector<Dot>> parts;
  const double radius = width / 2;
  for (const Dot& dot : dots) {  // a round end, and a round corner
    std::vector<Dot>& disc = parts.emplace_back();
    for (int k = 0; k < 12; ++k)
      disc.push_back({dot.x + radius * std::cos(k * 3.14159265358979 / 6),
                      dot.y + radius * std::sin(k * 3.14159265358979 / 6)});
  }
  for (std::size_t i = 0; i + 1 < dots.size(); ++i) {
    const Dot a = dots[i], b = dots[i + 1];
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    if (length == 0) continue;
    const double nx = (a.y - b.y) / length * radius, ny = (b.x - a.x) / length * radius;
    parts.push_back(
        {{a.x + nx, a.y + ny}, {b.x + nx, b.y + ny}, {b.x - nx, b.y - ny}, {a.x - nx, a.y - ny}});
  }
  fill(parts, colour);
}

}  // namespace parity::reports
