// The page of a history: one line a series, the steps first; drawn inline, nothing is fetched.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/runs.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::size_t kSeries = 300;  // drawn; the page says how many there are
constexpr double kWide = 220, kHigh = 36;

// Shares of the bound over the runs, on a log scale from a millionth to ten; the bound as a line.
std::string sparkline(const std::vector<double>& used) {
  const auto y = [](double share) {
    const double place = (std::clamp(std::log10(std::max(share, 1e-6)), -6.0, 1.0) + 6) / 7;
    return kHigh * (1 - place);
  };
  const double step = used.size() > 1 ? kWide / static_cast<double>(used.size() - 1) : 0;
  std::string points;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!std::isnan(used[i]))
      points += fmt::format("{:.1f},{:.1f} ", step * static_cast<double>(i), y(used[i]));
  return fmt::format(
      "<svg width='{}' height='{}' role='img' aria-label='share of the bound by run'>"
      "<line x1='0' x2='{}' y1='{:.1f}' y2='{:.1f}' class='bound'/>"
      "<polyline points='{}' class='used'/></svg>",
      kWide, kHigh, kWide, y(1), y(1), points);
}

}  // namespace

std::string history_page(const std::vector<RunFolder>& runs, const std::vector<Series>& all) {
  std::string text =
      "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>parity: history</title>"
      "<meta name='viewport' content='width=device-width'><style>"
      ":root{color-scheme:light dark}body{font:14px system-ui;margin:2em}"
      "table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:left;border-bottom:1px "
      "solid #8884}.step{font-weight:bold}svg{overflow:visible}.bound{stroke:#c33}"
      ".used{fill:none;stroke:currentColor;stroke-width:1.5}code{overflow-wrap:anywhere}"
      "</style></head><body><h1>History</h1>";
  const auto steps = std::ranges::count_if(all, [](const Series& s) { return s.step; });
  text += fmt::format("<p>{} from {} to {}; {} of {}. The red line is the bound.</p>",
                      count_of(std::ssize(runs), "run"),
                      escaped(runs.empty() ? "" : runs.front().run.started),
                      escaped(runs.empty() ? "" : runs.back().run.started), count_of(steps, "step"),
                      count_of(std::ssize(all), "series"));
  text +=
      "<table><tr><th>case<th>tensor<th>share of the bound<th>now<th>error against the median "
      "before</tr>";
  for (std::size_t i = 0; i < std::min(all.size(), kSeries); ++i) {
    const Series& s = all[i];
    text += fmt::format(
        "<tr{}><td><code>{}</code><td>{}<td>{}<td>{}<td>{}x, {:+.2g} noise floors</tr>",
        s.step ? " class='step'" : "", escaped(s.id), escaped(s.tensor), sparkline(s.bound_used),
        number(s.bound_used.back()), number(s.factor), s.noise_units);
  }
  text += "</table>";
  if (all.size() > kSeries)
    text += fmt::format("<p>and {} more without a step.</p>", all.size() - kSeries);
  return text + "</body></html>\n";
}

}  // namespace parity::reports
