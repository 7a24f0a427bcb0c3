// PNG (ISO/IEC 15948): the signature, then chunks of length, name, bytes and CRC-32.
#include <cmath>
#include <zlib.h>

#include "harness/failure.hpp"
#include "reports/raster.hpp"
#include "reports/stroke_font.hpp"

namespace parity::reports {
namespace {

void put(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

void chunk(std::string& out, std::string_view name, std::string_view bytes) {
  put(out, static_cast<std::uint32_t>(bytes.size()));
  std::string body(name);
  body += bytes;
  out += body;
  put(out, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                            static_cast<uInt>(body.size()))));
}

// Ink by ink, as drawing_style() has them.
constexpr std::array<Colour, kInks> kLight = {{{255, 255, 255},
                                               {27, 31, 35},
                                               {91, 101, 112},
                                               {226, 228, 231},
                                               {215, 230, 238},
                                               {169, 202, 219},
                                               {47, 111, 143},
                                               {194, 65, 12},
                                               {142, 36, 170}}};
constexpr std::array<Colour, kInks> kDark = {{{27, 31, 35},
                                              {230, 232, 234},
                                              {154, 164, 174},
                                              {48, 54, 60},
                                              {34, 52, 62},
                                              {47, 84, 104},
                                              {124, 196, 228},
                                              {255, 154, 92},
                                              {213, 151, 234}}};

constexpr double kScale = 2;           // pixels of the PNG for one of the drawing
constexpr double kDash = 4, kGap = 3;  // of the drawing
constexpr double kCapital = 6;         // of the stroke font

void letters(Raster& raster, const Shape& shape, Colour colour) {
  const double unit = shape.width / kCapital * kScale;
  Dot at{shape.dots[0].x * kScale, shape.dots[0].y * kScale};
  at.x -= (shape.anchor + 1) / 2.0 * text_width(shape.text) * unit;
  for (const char c : shape.text) {
    if (static_cast<unsigned char>(c) >= 0x80) continue;
    const Glyph drawn = glyph(c);
    for (const std::vector<Dot>& stroke : drawn.strokes) {
      std::vector<Dot> dots;
      for (const Dot& dot : stroke) dots.push_back({at.x + dot.x * unit, at.y - dot.y * unit});
      raster.stroke(dots, std::max(1.3, 0.85 * unit), colour);
    }
    at.x += drawn.advance * unit;
  }
}

// The parts of a line that a dashed one shows.
std::vector<std::vector<Dot>> dashes(const std::vector<Dot>& dots) {
  std::vector<std::vector<Dot>> parts;
  for (std::size_t i = 0; i + 1 < dots.size(); ++i) {
    const Dot a = dots[i], b = dots[i + 1];
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    const auto along = [&](double t) {
      const double share = std::min(1.0, t / length);
      return Dot{a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share};
    };
    for (double t = 0; t < length; t += kDash + kGap) parts.push_back({along(t), along(t + kDash)});
  }
  return parts;
}

}  // namespace

std::string png(const Raster& raster) {
  const auto row = static_cast<std::size_t>(raster.width()) * 3;
  std::string raw;
  for (int y = 0; y < raster.height(); ++y) {
    raw += '\0';  // no filter
    raw.append(
        reinterpret_cast<const char*>(raster.pixels().data()) + static_cast<std::size_t>(y) * row,
        row);
  }
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(raw.data()), static_cast<uLong>(raw.size()),
                9) != Z_OK)
    throw Failure("zlib refused a picture");
  packed.resize(size);
  std::string out = "\x89PNG\r\n\x1a\n", header;
  put(header, static_cast<std::uint32_t>(raster.width()));
  put(header, static_cast<std::uint32_t>(raster.height()));
  header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB, deflate, filters, no interlace
  chunk(out, "IHDR", header);
  chunk(out, "IDAT", packed);
  chunk(out, "IEND", "");
  return out;
}

std::string png_of(const Drawing& drawing, bool dark) {
  Raster raster(static_cast<int>(drawing.width * kScale),
                static_cast<int>(drawing.height * kScale));
  for (const Shape& shape : drawing.shapes) {
    const Colour colour = (dark ? kDark : kLight)[static_cast<std::size_t>(shape.ink)];
    if (shape.kind == Shape::Kind::Label) {
      letters(raster, shape, colour);
      continue;
    }
    std::vector<Dot> dots;
    for (const Dot& dot : shape.dots) dots.push_back({dot.x * kScale, dot.y * kScale});
    if (shape.kind == Shape::Kind::Area) {
      raster.fill(std::span(&dots, 1), colour);
    } else if (shape.dashed) {
      for (std::vector<Dot>& part : dashes(shape.dots)) {
        for (Dot& dot : part) dot = {dot.x * kScale, dot.y * kScale};
        raster.stroke(part, shape.width * kScale, colour);
      }
    } else {
      raster.stroke(dots, shape.width * kScale, colour);
    }
  }
  return png(raster);
}

}  // namespace parity::reports
