#include "reports/drift_page.hpp"

#include <gtest/gtest.h>
#include <set>
#include <zlib.h>

#include "reports/raster.hpp"
#include "reports/stroke_font.hpp"

namespace parity::reports {
namespace {

DriftReport sample() {
  DriftReport report{.candidate = "<new>.csv", .references = {"a", "b"}, .about = "loss"};
  report.judgement.verdict = drift::Verdict::Fail;
  report.judgement.reason = "more extreme than all";
  report.judgement.references = 2;
  report.judgement.columns = {{.name = "loss", .steps = 50, .p = 0.25, .left_band = 20}};
  report.points.emplace_back();
  for (int t = 0; t < 50; ++t)
    report.points[0].push_back({.step = t,
                                .candidate = 3.0 - 0.01 * t,
                                .median = 3.0 - 0.011 * t,
                                .low95 = 2.9 - 0.011 * t,
                                .low50 = 2.95 - 0.011 * t,
                                .high50 = 3.05 - 0.011 * t,
                                .high95 = 3.1 - 0.011 * t,
                                .residual = t < 20 ? 0.5 : 400.0});
  return report;
}

std::uint32_t big_endian(const std::string& text, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

// Chunks of a PNG by name; their checksums must hold.
std::string chunk_of(const std::string& png, const std::string& name) {
  std::size_t at = 8;
  while (at + 12 <= png.size()) {
    const std::uint32_t length = big_endian(png, at);
    const std::string body = png.substr(at + 4, length + 4);
    EXPECT_EQ(
        big_endian(png, at + 8 + length),
        crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
    if (body.starts_with(name)) return body.substr(4);
    at += 12 + length;
  }
  return "";
}

TEST(DriftPage, SaysVerdictColumnsAndNamesSafely) {
  const std::string page = drift_page(sample(), "parity drift '<new>.csv' a b");
  EXPECT_NE(page.find("&lt;new&gt;.csv"), std::string::npos);
  EXPECT_EQ(page.find("<new>"), std::string::npos);
  EXPECT_NE(page.find("Fail"), std::string::npos);
  EXPECT_NE(page.find("leaves its band at step 20"), std::string::npos);
  EXPECT_EQ(page.find("http:"), std::string::npos) << "the page needs no network";
}

TEST(DriftPage, ThePictureStandsAlone) {
  const std::string svg = svg_of(drift_figure(sample(), 0), true);
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_NE(svg.find("xmlns="), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(DriftPage, PngIsWholeAndShowsEveryInk) {
  const Drawing drawing = drift_figure(sample(), 0);
  for (const bool dark : {false, true}) {
    const std::string png = png_of(drawing, dark);
    ASSERT_TRUE(png.starts_with("\x89PNG\r\n\x1a\n"));
    const std::string header = chunk_of(png, "IHDR");
    const std::uint32_t width = big_endian(header, 0), height = big_endian(header, 4);
    EXPECT_EQ(width, 2 * static_cast<std::uint32_t>(drawing.width));
    std::string packed = chunk_of(png, "IDAT");
    std::string pixels(static_cast<std::size_t>(height) * (3 * width + 1), '\0');
    uLongf size = pixels.size();
    ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(pixels.data()), &size,
                         reinterpret_cast<const Bytef*>(packed.data()),
                         static_cast<uLong>(packed.size())),
              Z_OK);
    EXPECT_EQ(size, pixels.size());
    std::set<std::string> colours;
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x)
        colours.insert(pixels.substr(y * (3 * width + 1) + 1 + 3 * x, 3));
    const std::string run = dark ? "\xff\x9a\x5c" : "\xc2\x41\x0c";
    EXPECT_TRUE(colours.contains(run)) << "the candidate's line";
    EXPECT_GT(colours.size(), 20U);
  }
}

TEST(DriftPage, EveryLetterHasStrokesOfItsOwn) {
  std::set<std::string> seen;
  for (char c = '!'; c <= '~'; ++c) {
    const Glyph drawn = glyph(c);
    ASSERT_FALSE(drawn.strokes.empty()) << c;
    std::string key;
    for (const auto& stroke : drawn.strokes) {
      for (const Dot& dot : stroke) {
        EXPECT_GE(dot.x, 0) << c;
        EXPECT_LE(dot.x, 6) << c;
        EXPECT_GE(dot.y, -2) << c;
        EXPECT_LE(dot.y, 6) << c;
        key +=
            std::to_string(static_cast<int>(dot.x)) + std::to_string(static_cast<int>(dot.y)) + " ";
      }
      key += ";";
    }
    if (c != 'O') seen.insert(key);
  }
  EXPECT_GE(seen.size(), 90U);
}

TEST(DriftRaster, AFilledSquareCoversItsPixels) {
  Raster raster(10, 10);
  const std::vector<Dot> square = {{2, 2}, {6.5, 2}, {6.5, 6}, {2, 6}};
  raster.fill(std::span(&square, 1), {0, 0, 0});
  const auto at = [&](int x, int y) {
    return raster.pixels()[static_cast<std::size_t>((y * 10 + x) * 3)];
  };
  EXPECT_EQ(at(3, 3), 0);
  EXPECT_EQ(at(1, 3), 255);
  EXPECT_EQ(at(6, 3), 128);
  EXPECT_EQ(at(3, 7), 255);
}

}  // namespace
}  // namespace parity::reports
