#include "reports/svg_frame.hpp"

#include <array>
#include <fmt/format.h>

#include "reports/words.hpp"

namespace parity::reports::svg {

std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

double Frame::x(double value) const {
  return left + (value - x0) / (x1 - x0) * (width - left - right);
}
double Frame::y(double value) const {
  return height - bottom - (value - y0) / (y1 - y0) * (height - top - bottom);
}

std::string Frame::open(std::string_view label) const {
  return fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", px(width),
                     px(height), escaped(label));
}

std::string Frame::box() const {
  return fmt::format(R"(<rect class="frame" x="{}" y="{}" width="{}" height="{}"/>)", px(left),
                     px(top), px(width - left - right), px(height - top - bottom));
}

std::string Frame::x_tick(double value, std::string_view text) const {
  return fmt::format(R"(<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>)",
                     px(x(value)), px(height - bottom + 13), escaped(text));
}

std::string Frame::y_tick(double value, std::string_view text) const {
  return fmt::format(
      R"(<text class="tick" x="{}" y="{}" text-anchor="end">{}</text><path class="grid" d="M{} {}h{}"/>)",
      px(left - 5), px(y(value) + 3.5), escaped(text), px(left), px(y(value)),
      px(width - left - right));
}

std::string Frame::x_title(std::string_view text) const {
  return fmt::format(R"(<text class="title" x="{}" y="{}" text-anchor="middle">{}</text>)",
                     px((left + width - right) / 2), px(height - 5), escaped(text));
}

std::string Frame::y_line(double value, const char* css) const {
  return fmt::format(R"(<path class="{}" d="M{} {}h{}"/>)", css, px(left), px(y(value)),
                     px(width - left - right));
}

std::string Frame::x_lines(double step, int limit) const {
  if (step <= 0 || (x1 - x0) / step > limit) return "";
  std::string path;
  for (double at = step; at < x1; at += step)
    if (at > x0) path += fmt::format("M{} {}v{}", px(x(at)), px(top), px(height - top - bottom));
  return path.empty() ? "" : fmt::format(R"(<path class="chunk" d="{}"/>)", path);
}

std::string power(int base, std::int64_t exponent) {
  static constexpr std::array<std::string_view, 10> kRaised = {"⁰", "¹", "²", "³", "⁴",
                                                               "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = std::to_string(base);
  for (const char c : std::to_string(exponent))
    text += c == '-' ? "⁻" : kRaised[static_cast<std::size_t>(c - '0')];
  return text;
}

}  // namespace parity::reports::svg
