#include "reports/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "reports/svg_frame.hpp"
#include "reports/words.hpp"

namespace parity::reports::svg {
namespace {

constexpr std::array<double, kSteps - 1> kEdges = {0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};

std::string power_of_ten(int exponent) { return exponent == 0 ? "1" : power(10, exponent); }

double finite_or(double value, double otherwise) {
  return std::isfinite(value) ? value : otherwise;
}

}  // namespace

int step_of(double bound_used) {
  if (std::isnan(bound_used)) return kSteps - 1;
  return static_cast<int>(
      std::ranges::count_if(kEdges, [&](double edge) { return bound_used > edge; }));
}

std::string step_words(int step) {
  if (step <= 0) return fmt::format("below {}", kEdges.front());
  if (step >= kSteps - 1) return fmt::format("above {}", kEdges.back());
  return fmt::format("{} to {}", kEdges[static_cast<std::size_t>(step - 1)],
                     kEdges[static_cast<std::size_t>(step)]);
}

std::string heatmap(const Heatmap& map, const Extents& extents) {
  return heatmap(map, extents, "share of the bound", step_of);
}

std::string heatmap(const Heatmap& map, const Extents& extents, std::string_view what,
                    const std::function<int(double)>& step_of_cell) {
  if (map.height <= 0 || map.width <= 0 ||
      map.cells.size() < static_cast<std::size_t>(map.height * map.width))
    return "";
  const double rows = static_cast<double>(map.height), cols = static_cast<double>(map.width);
  // Axis "t" lies to the right, as time does: few heads below each other, many tokens in a row.
  const bool turn = map.rows == "t" && map.cols != "t";
  Frame frame{.x1 = turn ? rows : cols, .y1 = turn ? cols : rows, .left = 44, .bottom = 34};
  const double cells_down = frame.y1;
  frame.height = frame.top + frame.bottom + std::clamp(cells_down * 10, 40.0, 200.0);
  std::string text = frame.open(fmt::format("{} by {} and {}", what, map.rows, map.cols));
  std::array<std::string, kSteps> paths;
  const double cell = (frame.width - frame.left - frame.right) / frame.x1,
               tall = (frame.height - frame.top - frame.bottom) / frame.y1;
  const auto at = [&](std::int64_t down, std::int64_t across) {
    const std::int64_t row = turn ? across : down, col = turn ? down : across;
    return step_of_cell(map.cells[static_cast<std::size_t>(row * map.width + col)]);
  };
  const auto across_n = static_cast<std::int64_t>(frame.x1),
             down_n = static_cast<std::int64_t>(frame.y1);
  for (std::int64_t down = 0; down < down_n; ++down)
    for (std::int64_t across = 0; across < across_n;) {
      const int step = at(down, across);
      std::int64_t end = across + 1;
      while (end < across_n && at(down, end) == step) ++end;
      // One path a colour: runs of equal cells as strokes along the middle of their row.
      paths[static_cast<std::size_t>(step)] +=
          fmt::format("M{} {}h{}", px(frame.left + static_cast<double>(across) * cell),
                      px(frame.top + (static_cast<double>(down) + 0.5) * tall),
                      px(static_cast<double>(end - across) * cell));
      across = end;
    }
  for (int step = 0; step < kSteps; ++step)
    if (const std::string& path = paths[static_cast<std::size_t>(step)]; !path.empty())
      text += fmt::format(R"(<path class="s{}" stroke-width="{}" d="{}"/>)", step, px(tall + 0.3),
                          path);
  text += frame.box();
  const double across_extent = static_cast<double>(turn ? extents.rows : extents.cols),
               down_extent = static_cast<double>(turn ? extents.cols : extents.rows);
  const std::string& across_name = turn ? map.rows : map.cols;
  if (across_name == "t" && extents.chunk > 0 && across_extent > 0)
    text += frame.x_lines(static_cast<double>(extents.chunk) / across_extent * frame.x1, 40);
  text += frame.x_tick(0, "0") + frame.x_tick(frame.x1, number(across_extent));
  text += fmt::format(
      R"(<text class="tick" x="{0}" y="{1}" text-anchor="end">0</text><text class="tick" x="{0}" y="{2}" text-anchor="end">{3}</text>)",
      px(frame.left - 5), px(frame.top + 8), px(frame.height - frame.bottom),
      number(down_extent - 1));
  text += frame.x_title(across_name);
  text += fmt::format(R"(<text class="title" x="12" y="{}" text-anchor="middle">{}</text>)",
                      px((frame.top + frame.height - frame.bottom) / 2 + 4),
                      escaped(turn ? map.cols : map.rows));
  return text + "</svg>";
}

std::string ulp_histogram(const std::vector<std::int64_t>& candidate,
                          const std::vector<std::int64_t>& base) {
  if (candidate.empty()) return "";
  const auto middle = static_cast<std::int64_t>(candidate.size() / 2);
  // Only the bins in use, symmetric around "equal".
  std::int64_t reach = 1;
  std::int64_t most = 1;
  for (const auto* histogram : {&candidate, &base})
    for (std::size_t i = 0; i < histogram->size(); ++i)
      if ((*histogram)[i] > 0) {
        reach = std::max<std::int64_t>(reach, std::abs(static_cast<std::int64_t>(i) - middle));
        most = std::max(most, (*histogram)[i]);
      }
  const double half = static_cast<double>(reach) + 0.5;
  const double top = std::log10(static_cast<double>(most)) + 0.3;
  const Frame frame{.x0 = -half, .x1 = half, .y0 = -0.3, .y1 = top};
  const auto value = [&](const std::vector<std::int64_t>& histogram, std::int64_t bin) {
    const std::int64_t i = middle + bin;
    return i >= 0 && i < static_cast<std::int64_t>(histogram.size())
               ? histogram[static_cast<std::size_t>(i)]
               : 0;
  };
  const auto level = [&](std::int64_t n) {
    return n > 0 ? std::log10(static_cast<double>(n)) : -0.3;
  };
  std::string text = frame.open("log2 of the error in ulps, both signs");
  for (int e = 0; e <= static_cast<int>(top); e += top > 5 ? 2 : 1)
    text += frame.y_tick(e, power_of_ten(e));
  std::string bars, outline;
  for (std::int64_t bin = -reach; bin <= reach; ++bin) {
    const double left = frame.x(static_cast<double>(bin) - 0.42),
                 wide = frame.x(static_cast<double>(bin) + 0.42) - left;
    if (const std::int64_t n = value(candidate, bin); n > 0)
      bars += fmt::format("M{} {}v{}h{}v{}z", px(left), px(frame.y(-0.3)),
                          px(frame.y(level(n)) - frame.y(-0.3)), px(wide),
                          px(frame.y(-0.3) - frame.y(level(n))));
    outline += fmt::format(
        "{}{} {}H{}", bin == -reach ? "M" : "L", px(frame.x(static_cast<double>(bin) - 0.5)),
        px(frame.y(level(value(base, bin)))), px(frame.x(static_cast<double>(bin) + 0.5)));
  }
  text += fmt::format(R"(<path class="bars" d="{}"/>)", bars);
  if (!base.empty()) text += fmt::format(R"(<path class="base" d="{}"/>)", outline);
  text += frame.box();
  // Bin b > 0 holds errors of 2^(b-1) up to 2^b ulps; the middle one holds what is equal.
  const std::int64_t stride = std::max<std::int64_t>(1, (2 * reach + 8) / 9);
  for (std::int64_t bin = 0; bin <= reach; bin += stride) {
    text += frame.x_tick(static_cast<double>(bin), bin == 0 ? "=" : power(2, bin - 1));
    if (bin > 0) text += frame.x_tick(-static_cast<double>(bin), "-" + power(2, bin - 1));
  }
  return text + frame.x_title("error in ulps (bars: candidate, line: base)") + "</svg>";
}

std::string profile(const AxisProfile& profile, std::int64_t extent, std::int64_t chunk) {
  const std::size_t n = profile.bound_used.size();
  if (n == 0) return "";
  double low = 1, high = 1;
  for (const double used : profile.bound_used)
    if (used > 0 && std::isfinite(used)) low = std::min(low, used), high = std::max(high, used);
  const double y0 = std::max(-6.0, std::floor(std::log10(low) - 0.2)),
               y1 = std::min(9.0, std::log10(high) + 0.4);
  const double last = static_cast<double>(std::max<std::int64_t>(extent, 1));
  const Frame frame{.x1 = last, .y0 = y0, .y1 = y1, .height = 150};
  std::string text = frame.open("largest share of the bound by " + profile.axis);
  const int stride = y1 - y0 > 5 ? 2 : 1;
  for (int e = static_cast<int>(y0); e <= static_cast<int>(y1); e += stride)
    text += frame.y_tick(e, power_of_ten(e));
  if (chunk > 0) text += frame.x_lines(static_cast<double>(chunk), 40);
  const double step = last / static_cast<double>(n);
  std::string below, over;
  for (std::size_t i = 0; i < n; ++i) {
    const double used = profile.bound_used[i];
    if (used <= 0) continue;
    const double level = std::clamp(std::log10(finite_or(used, std::pow(10.0, y1))), y0, y1);
    const double left = frame.x(static_cast<double>(i) * step),
                 wide = std::max(0.8, frame.x(step) - frame.x(0) - (n > 64 ? 0.0 : 1.0));
    (used <= 1 ? below : over) +=
        fmt::format("M{} {}v{}h{}V{}z", px(left), px(frame.y(y0)), px(frame.y(level) - frame.y(y0)),
                    px(wide), px(frame.y(y0)));
  }
  text += fmt::format(R"(<path class="bars" d="{}"/><path class="over" d="{}"/>)", below, over);
  text += frame.y_line(0, "bound") + frame.box();
  text += frame.x_tick(0, "0") + frame.x_tick(last, number(last));
  return text + frame.x_title(profile.axis) + "</svg>";
}

std::string scatter(const Scatter& points) {
  const std::size_t n =
      std::min({points.log2_magnitude.size(), points.log2_error.size(), points.count.size()});
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY, most = 1;
  const auto widen = [](double value, double& low, double& high) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  };
  for (std::size_t i = 0; i < n; ++i) {
    widen(points.log2_magnitude[i], x0, x1);
    widen(points.log2_error[i], y0, y1);
    if (i < points.log2_allowed.size()) widen(points.log2_allowed[i], y0, y1);
    most = std::max(most, points.count[i]);
  }
  if (!(x1 >= x0) || !(y1 >= y0)) return "";
  const Frame frame{.x0 = x0 - 0.5, .x1 = x1 + 1.5, .y0 = y0 - 0.5, .y1 = y1 + 1.5};
  std::string text = frame.open("error against magnitude");
  const auto ticks = [](double low, double high) {
    return std::max(1, static_cast<int>((high - low) / 6));
  };
  const int xs = ticks(x0, x1), ys = ticks(y0, y1);
  for (int e = static_cast<int>(std::ceil(y0)); e <= y1; e += ys)
    text += frame.y_tick(e, power(2, e));
  std::array<std::string, 4> shades;  // by log of the count
  const double wide = frame.x(1) - frame.x(0), tall = frame.y(0) - frame.y(1);
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(points.log2_magnitude[i]) || !std::isfinite(points.log2_error[i]) ||
        !(points.count[i] > 0))
      continue;
    const auto shade = static_cast<std::size_t>(
        std::clamp(std::log(points.count[i] + 1) / std::log(most + 1) * 4, 0.0, 3.0));
    shades[shade] +=
        fmt::format("M{} {}h{}v{}h{}z", px(frame.x(points.log2_magnitude[i])),
                    px(frame.y(points.log2_error[i] + 1)), px(wide), px(tall), px(-wide));
  }
  for (std::size_t shade = 0; shade < shades.size(); ++shade)
    if (!shades[shade].empty())
      text += fmt::format(R"(<path class="n{}" d="{}"/>)", shade, shades[shade]);
  std::vector<std::pair<double, double>> bound;  // least bound of each magnitude
  for (std::size_t i = 0; i < std::min(n, points.log2_allowed.size()); ++i)
    if (std::isfinite(points.log2_magnitude[i]) && std::isfinite(points.log2_allowed[i]))
      bound.emplace_back(points.log2_magnitude[i], points.log2_allowed[i]);
  std::ranges::sort(bound);
  std::string line;
  for (std::size_t i = 0; i < bound.size(); ++i)
    if (i == 0 || bound[i].first != bound[i - 1].first)
      line += fmt::format("{}{} {}H{}", line.empty() ? "M" : "L", px(frame.x(bound[i].first)),
                          px(frame.y(bound[i].second)), px(frame.x(bound[i].first + 1)));
  if (!line.empty()) text += fmt::format(R"(<path class="bound" d="{}"/>)", line);
  text += frame.box();
  for (int e = static_cast<int>(std::ceil(x0)); e <= x1; e += xs)
    text += frame.x_tick(e, power(2, e));
  return text +
         frame.x_title(bound.empty() ? "magnitude" : "magnitude of the truth (line: bound)") +
         "</svg>";
}

std::string layers(const std::vector<LayerBars>& groups) {
  double low = INFINITY, high = 0, slots = -1;
  for (const LayerBars& group : groups) {
    slots += 1 + static_cast<double>(group.bars.size());
    for (const LayerBar& bar : group.bars)
      for (const double value : {bar.whole, bar.own, bar.budget})
        if (value > 0 && std::isfinite(value))
          low = std::min(low, value), high = std::max(high, value);
  }
  if (!(high > 0)) return "";
  const Frame frame{.x1 = slots + 0.4,
                    .y0 = std::floor(std::log10(low) - 0.1),
                    .y1 = std::ceil(std::log10(high) + 0.1),
                    .width = 800,
                    .height = 230,
                    .left = 48};
  const auto level = [&](double value) {
    return frame.y(value > 0 ? std::clamp(std::log10(finite_or(value, std::pow(10, frame.y1))),
                                          frame.y0, frame.y1)
                             : frame.y0);
  };
  std::string text = frame.open("error of each layer, inherited and its own, and its budget");
  const int stride = frame.y1 - frame.y0 > 6 ? 2 : 1;
  for (int e = static_cast<int>(frame.y0); e <= static_cast<int>(frame.y1); e += stride)
    text += frame.y_tick(e, power_of_ten(e));
  std::string inherited, own, over, budget;
  double at = 0.2;
  for (const LayerBars& group : groups) {
    const double begin = at;
    for (const LayerBar& bar : group.bars) {
      const auto box = [&](double from, double to, double value) {
        return fmt::format("M{} {}V{}H{}V{}z", px(frame.x(at + from)), px(frame.y(frame.y0)),
                           px(level(value)), px(frame.x(at + to)), px(frame.y(frame.y0)));
      };
      inherited += box(0.1, 0.9, bar.whole);
      (bar.over ? over : own) += box(0.27, 0.73, bar.own);
      if (bar.budget > 0)
        budget += fmt::format("M{} {}H{}", px(frame.x(at + 0.02)), px(level(bar.budget)),
                              px(frame.x(at + 0.98)));
      text += frame.x_tick(at + 0.5, bar.label);
      at += 1;
    }
    text += fmt::format(R"(<text class="title" x="{}" y="{}" text-anchor="middle">{}</text>)",
                        px(frame.x((begin + at) / 2)), px(frame.height - 5), escaped(group.title));
    at += 1;
  }
  text += fmt::format(R"(<path class="n1" d="{}"/><path class="bars" d="{}"/>)", inherited, own);
  text += fmt::format(R"(<path class="over" d="{}"/><path class="bound" d="{}"/>)", over, budget);
  return text + frame.box() + "</svg>";
}

}  // namespace parity::reports::svg
