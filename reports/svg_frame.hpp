// What the pictures share: a plot area, and numbers as they are written in one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace parity::reports::svg {

// One decimal is a tenth of a pixel; trailing zeros are left out, since pages hold thousands of
// these.
std::string px(double value);

// A plot area inside a picture of fixed size, linear in data units.
struct Frame {
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;  // data
  double width = 340, height = 200, left = 44, right = 10, top = 10, bottom = 34;

  double x(double value) const;
  double y(double value) const;
  std::string open(std::string_view label) const;
  std::string box() const;
  std::string x_tick(double value, std::string_view text) const;
  std::string y_tick(double value, std::string_view text) const;
  std::string x_title(std::string_view text) const;
  std::string y_line(double value, const char* css) const;
  // Lines at the multiples of `step` strictly inside, at most `limit` of them (else none: a grey
  // carpet shows nothing).
  std::string x_lines(double step, int limit) const;
};

// "2" to the power of -12, with raised digits.
std::string power(int base, std::int64_t exponent);

}  // namespace parity::reports::svg
