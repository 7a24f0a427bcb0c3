#include "reports/drawing.hpp"

#include <array>
#include <fmt/format.h>

#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::array<std::string_view, kInks> kClasses = {
    "d-paper", "d-text", "d-soft", "d-line", "d-outer", "d-inner", "d-median", "d-run", "d-mark"};

std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string path(const Shape& shape) {
  std::string d;
  for (const Dot& dot : shape.dots)
    d += fmt::format("{}{} {}", d.empty() ? "M" : "L", px(dot.x), px(dot.y));
  return shape.kind == Shape::Kind::Area ? d + "Z" : d;
}

}  // namespace

void Drawing::area(Ink ink, std::vector<Dot> dots) {
  shapes.push_back({.kind = Shape::Kind::Area, .ink = ink, .dots = std::move(dots)});
}

void Drawing::stroke(Ink ink, std::vector<Dot> dots, double thick, bool dashed) {
  shapes.push_back({.kind = Shape::Kind::Stroke,
                    .ink = ink,
                    .dots = std::move(dots),
                    .width = thick,
                    .dashed = dashed});
}

void Drawing::text(Ink ink, Dot at, std::string_view words, double size, int anchor) {
  shapes.push_back({.kind = Shape::Kind::Label,
                    .ink = ink,
                    .dots = {at},
                    .width = size,
                    .text = std::string(words),
                    .anchor = anchor});
}

std::string_view drawing_style() {
  return R"css(
.drawing{max-width:none;--d-paper:#fff;--d-text:#1b1f23;--d-soft:#5b6570;--d-line:#e2e4e7;--d-outer:#d7e6ee;--d-inner:#a9cadb;--d-median:#2f6f8f;--d-run:#c2410c;--d-mark:#8e24aa}
:root[data-theme=dark] .drawing{--d-paper:#1b1f23;--d-text:#e6e8ea;--d-soft:#9aa4ae;--d-line:#30363c;--d-outer:#22343e;--d-inner:#2f5468;--d-median:#7cc4e4;--d-run:#ff9a5c;--d-mark:#d597ea}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .drawing{--d-paper:#1b1f23;--d-text:#e6e8ea;--d-soft:#9aa4ae;--d-line:#30363c;--d-outer:#22343e;--d-inner:#2f5468;--d-median:#7cc4e4;--d-run:#ff9a5c;--d-mark:#d597ea}}
.drawing path{fill:none}.drawing .d-paper{fill:var(--d-paper)}.drawing .d-outer{fill:var(--d-outer)}.drawing .d-inner{fill:var(--d-inner)}
.drawing path.d-text{stroke:var(--d-text)}.drawing path.d-soft{stroke:var(--d-soft)}.drawing path.d-line{stroke:var(--d-line)}.drawing path.d-median{stroke:var(--d-median)}.drawing path.d-run{stroke:var(--d-run);stroke-linejoin:round}.drawing path.d-mark{stroke:var(--d-mark)}
.drawing text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}.drawing text.d-text{fill:var(--d-text)}.drawing text.d-soft{fill:var(--d-soft)}.drawing text.d-median{fill:var(--d-median)}.drawing text.d-run{fill:var(--d-run)}.drawing text.d-mark{fill:var(--d-mark)}
)css";
}

std::string svg_of(const Drawing& drawing, bool alone) {
  std::string text = fmt::format(
      R"(<svg class="drawing"{} viewBox="0 0 {} {}" role="img" aria-label="{}">)",
      alone ? fmt::format(R"( xmlns="http://www.w3.org/2000/svg" width="{}" height="{}")",
                          px(drawing.width), px(drawing.height))
            : "",
      px(drawing.width), px(drawing.height), escaped(drawing.label));
  if (alone) text += fmt::format("<style>{}</style>", drawing_style());
  for (const Shape& shape : drawing.shapes) {
    const std::string_view css = kClasses[static_cast<std::size_t>(shape.ink)];
    if (shape.kind == Shape::Kind::Label)
      text += fmt::format(R"(<text class="{}" x="{}" y="{}" font-size="{}"{}>{}</text>)", css,
                          px(shape.dots[0].x), px(shape.dots[0].y), px(shape.width / 0.7),
                          shape.anchor < 0    ? ""
                          : shape.anchor == 0 ? R"( text-anchor="middle")"
                                              : R"( text-anchor="end")",
                          escaped(shape.text));
    else if (shape.kind == Shape::Kind::Area)
      text += fmt::format(R"(<path class="{}" d="{}"/>)", css, path(shape));
    else
      text += fmt::format(R"(<path class="{}" stroke-width="{}"{} d="{}"/>)", css, px(shape.width),
                          shape.dashed ? R"( stroke-dasharray="4 3")" : "", path(shape));
  }
  return text + "</svg>\n";
}

}  // namespace parity::reports
