// What the pictures share: a plot area, and numbers as they are written in one. Included by .cpp
// files alone.
#pragma once

#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "reports/words.hpp"

namespace parity::reports::svg {

// One decimal is a tenth of a pixel; trailing zeros are left out, since pages hold thousands of
// these.
inline std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

// A plot area inside a picture of fixed size, linear in data units.
struct Frame {
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;  // data
  double width = 340, height = 200, left = 44, right = 10, top = 10, bottom = 34;

  double x(double value) const { return left + (value - x0) / (x1 - x0) * (width - left - right); }
  double y(double value) const {
    return height - bottom - (value - y0) / (y1 - y0) * (height - top - bottom);
  }
  std::string open(std::string_view label) const {
    return fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", px(width),
                       px(height), escaped(label));
  }
  std::string box() const {
    return fmt::format(R"(<rect class="frame" x="{}" y="{}" width="{}" height="{}"/>)", px(left),
                       px(top), px(width - left - right), px(height - top - bottom));
  }
  std::string x_tick(double value, std::string_view text) const {
    return fmt::format(R"(<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>)",
                       px(x(value)), px(height - bottom + 13), escaped(text));
  }
  std::string y_tick(double value, std::string_view text) const {
    return fmt::format(
        R"(<text class="tick" x="{}" y="{}" text-anchor="end">{}</text><path class="grid" d="M{} {}h{}"/>)",
        px(left - 5), px(y(value) + 3.5), escaped(text), px(left), px(y(value)),
        px(width - left - right));
  }
  std::string x_title(std::string_view text) const {
    return fmt::format(R"(<text class="title" x="{}" y="{}" text-anchor="middle">{}</text>)",
                       px((left + width - right) / 2), px(height - 5), escaped(text));
  }
  std::string y_line(double value, const char* css) const {
    return fmt::format(R"(<path class="{}" d="M{} {}h{}"/>)", css, px(left), px(y(value)),
                       px(width - left - right));
  }
  // Lines at the multiples of `step` strictly inside, at most `limit` of them (else none: a grey
  // carpet shows nothing).
  std::string x_lines(double step, int limit) const {
    if (step <= 0 || (x1 - x0) / step > limit) return "";
    std::string path;
    for (double at = step; at < x1; at += step)
      if (at > x0) path += fmt::format("M{} {}v{}", px(x(at)), px(top), px(height - top - bottom));
    return path.empty() ? "" : fmt::format(R"(<path class="chunk" d="{}"/>)", path);
  }
};

// "2" to the power of -12, with raised digits.
inline std::string power(int base, std::int64_t exponent) {
  static constexpr std::array<std::string_view, 10> kRaised = {"⁰", "¹", "²", "³", "⁴",
                                                               "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = std::to_string(base);
  for (const char c : std::to_string(exponent))
    text += c == '-' ? "⁻" : kRaised[static_cast<std::size_t>(c - '0')];
  return text;
}
}  // namespace parity::reports::svg
