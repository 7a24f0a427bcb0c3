// One column of `parity drift`: above, the candidate over the bands that hold half and 95 % of the
// references; below, its residual in sigma on a scale that is linear up to 3 and logarithmic
// beyond.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "reports/drift_page.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

using drift::ColumnVerdict;
using drift::Point;

constexpr double kWidth = 880, kLeft = 62, kRight = 16;
constexpr double kTop = 52, kMiddle = 292, kBelow = 320, kBottom = 452, kHeight = 492;
constexpr double kSmall = 7.5, kLarge = 10;  // capitals, px
constexpr double kLinear = 3;                // sigma

// Linear up to kLinear, then a unit for each factor of e.
double bent(double sigma) {
  const double size = std::abs(sigma);
  return std::copysign(size <= kLinear ? size : kLinear * (1 + std::log(size / kLinear)), sigma);
}

struct Axis {
  double from = 0, to = 1, low = 0, high = 1;  // data, pixels
  double operator()(double value) const {
    return low + (value - from) / (to - from) * (high - low);
  }
};

// A round step that gives about `wanted` ticks.
double tick_step(double span, double wanted) {
  const double raw = span / wanted, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

void band(Drawing& drawing, Ink ink, const std::vector<Point>& points, const Axis& x, const Axis& y,
          double Point::*low, double Point::*high) {
  std::vector<Dot> dots;
  for (const Point& p : points) dots.push_back({x(static_cast<double>(p.step)), y(p.*high)});
  for (auto p = points.rbegin(); p != points.rend(); ++p)
    dots.push_back({x(static_cast<double>(p->step)), y((*p).*low)});
  drawing.area(ink, std::move(dots));
}

void line(Drawing& drawing, Ink ink, double width, const std::vector<Point>& points, const Axis& x,
          const Axis& y, double Point::*value) {
  std::vector<Dot> dots;
  for (const Point& p : points) dots.push_back({x(static_cast<double>(p.step)), y(p.*value)});
  drawing.stroke(ink, std::move(dots), width);
}

void frame(Drawing& drawing, double top, double bottom) {
  drawing.stroke(Ink::Line,
                 {{kLeft, top},
                  {kWidth - kRight, top},
                  {kWidth - kRight, bottom},
                  {kLeft, bottom},
                  {kLeft, top}},
                 1);
}

void mark(Drawing& drawing, const Axis& x, std::int64_t step, std::string_view words) {
  const double at = x(static_cast<double>(step));
  drawing.stroke(Ink::Mark, {{at, kTop}, {at, kBottom}}, 1.2, true);
  const bool right = at > kWidth * 0.7;
  drawing.text(Ink::Mark, {at + (right ? -5 : 5), kMiddle + 18}, words, kSmall, right ? 1 : -1);
}

void upper_panel(Drawing& drawing, const std::vector<Point>& points, const Axis& x) {
  double least = INFINITY, most = -INFINITY;
  for (const Point& p : points) {
    for (const double v : {p.low95, p.high95, p.candidate}) {
      least = std::min(least, v);
      most = std::max(most, v);
    }
  }
  if (!(most > least))
    most = least + std::max(1e-12, std::abs(least) * 1e-3), least -= most - least;
  const double margin = (most - least) * 0.04;
  const Axis y{least - margin, most + margin, kMiddle, kTop};
  const double step = tick_step(y.to - y.from, 5);
  for (double tick = std::ceil(y.from / step) * step; tick <= y.to; tick += step) {
    drawing.stroke(Ink::Line, {{kLeft, y(tick)}, {kWidth - kRight, y(tick)}}, 0.6);
    drawing.text(Ink::Soft, {kLeft - 7, y(tick) + 4},
                 fmt::format("{:.4g}", std::abs(tick) < step / 2 ? 0 : tick), kSmall, 1);
  }
  band(drawing, Ink::Outer, points, x, y, &Point::low95, &Point::high95);
  band(drawing, Ink::Inner, points, x, y, &Point::low50, &Point::high50);
  line(drawing, Ink::Median, 1.2, points, x, y, &Point::median);
  line(drawing, Ink::Candidate, 1.6, points, x, y, &Point::candidate);
  frame(drawing, kTop, kMiddle);
}

void lower_panel(Drawing& drawing, std::vector<Point> points, const Axis& x) {
  double most = bent(4);
  for (Point& p : points) {
    p.residual = bent(p.residual);
    most = std::max(most, std::abs(p.residual) * 1.05);
  }
  const Axis y{-most, most, kBottom, kBelow};
  const double one = y(bent(1)), minus = y(bent(-1)), two = y(bent(1.96)),
               minus_two = y(bent(-1.96));
  drawing.area(
      Ink::Outer,
      {{kLeft, two}, {kWidth - kRight, two}, {kWidth - kRight, minus_two}, {kLeft, minus_two}});
  drawing.area(Ink::Inner,
               {{kLeft, one}, {kWidth - kRight, one}, {kWidth - kRight, minus}, {kLeft, minus}});
  for (const double tick : {0.0, 3.0, 10.0, 100.0, 1000.0, 10000.0, 1e5, 1e6})
    for (const double sign : {1.0, -1.0}) {
      const double at = y(bent(sign * tick));
      if (at < kBelow || at > kBottom || (tick == 0 && sign < 0)) continue;
      drawing.stroke(Ink::Line, {{kLeft, at}, {kWidth - kRight, at}}, 0.6);
      drawing.text(Ink::Soft, {kLeft - 7, at + 3}, fmt::format("{:g}", sign * tick), kSmall * 0.9,
                   1);
    }
  line(drawing, Ink::Candidate, 1.2, points, x, y, &Point::residual);
  frame(drawing, kBelow, kBottom);
  drawing.text(Ink::Soft, {kLeft + 6, kBelow + 13}, "residual, sigma", kSmall, -1);
}

}  // namespace

Drawing drift_figure(const DriftReport& report, std::size_t column) {
  const ColumnVerdict& verdict = report.judgement.columns.at(column);
  const std::vector<Point>& points = report.points.at(column);
  Drawing drawing{
      .width = kWidth,
      .height = kHeight,
      .label = fmt::format("{} of the candidate over the references, by step", verdict.name)};
  drawing.area(Ink::Paper, {{0, 0}, {kWidth, 0}, {kWidth, kHeight}, {0, kHeight}});
  drawing.text(Ink::Text, {kLeft, 22}, verdict.name, kLarge, -1);
  const double legend = kWidth - kRight;
  drawing.text(Ink::Candidate, {legend, 22}, "candidate", kSmall, 1);
  drawing.text(Ink::Median, {legend - 90, 22},
               fmt::format("median, 50 % and 95 % of {} references", report.judgement.references),
               kSmall, 1);
  drawing.text(
      Ink::Soft, {kLeft, 41},
      fmt::format("{}: p = {:.3f} of the run, {:.3f} of this column; largest {} sigma at step {}",
                  drift::name(report.judgement.verdict), report.judgement.p, verdict.p,
                  number(verdict.max_sigma), verdict.max_step),
      kSmall, -1);
  if (points.empty()) return drawing;
  const auto first = static_cast<double>(points.front().step);
  const Axis x{first, std::max(first + 1, static_cast<double>(points.back().step)), kLeft,
               kWidth - kRight};
  upper_panel(drawing, points, x);
  lower_panel(drawing, points, x);
  const double step = std::max(1.0, tick_step(x.to - x.from, 8));
  for (double tick = std::ceil(x.from / step) * step; tick <= x.to; tick += step)
    drawing.text(Ink::Soft, {x(tick), kBottom + 16}, fmt::format("{:.0f}", tick), kSmall, 0);
  drawing.text(Ink::Soft, {(kLeft + kWidth - kRight) / 2, kBottom + 33}, "step", kSmall, 0);
  if (report.judgement.verdict == drift::Verdict::Fail && verdict.left_band)
    mark(drawing, x, *verdict.left_band,
         fmt::format("leaves its band at step {}", *verdict.left_band));
  else if (report.judgement.first_difference)
    mark(drawing, x, *report.judgement.first_difference,
         fmt::format("bits differ from step {}", *report.judgement.first_difference));
  return drawing;
}

std::vector<std::size_t> telling_columns(const DriftReport& report) {
  const auto& columns = report.judgement.columns;
  std::vector<std::size_t> list;
  const auto add = [&](std::size_t i) {
    if (i < columns.size() && std::ranges::find(list, i) == list.end()) list.push_back(i);
  };
  add(0);
  if (report.judgement.first_parameter && report.judgement.verdict == drift::Verdict::Fail)
    add(*report.judgement.first_parameter);
  add(report.judgement.telling);
  add(1);
  return list;
}

}  // namespace parity::reports
