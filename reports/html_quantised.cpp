// What a quantiser did, on the page of its case: how often each code occurs, scales over the
// matrix, error against magnitude, and which other chains would have given the same.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/page.hpp"
#include "reports/quantised.hpp"
#include "reports/svg.hpp"
#include "reports/svg_frame.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace svg {

std::string code_histogram(const std::vector<double>& values,
                           const std::vector<std::int64_t>& counts) {
  const std::size_t n = std::min(values.size(), counts.size());
  if (n == 0) return "";
  const auto most = static_cast<double>(*std::ranges::max_element(counts));
  const Frame frame{.x1 = static_cast<double>(n), .y0 = -0.3, .y1 = std::log10(most + 1) + 0.3};
  std::string text = frame.open("how often each code occurs");
  for (int e = 0; e <= static_cast<int>(frame.y1); ++e)
    text += frame.y_tick(e, number(std::pow(10.0, e)));
  std::string bars;
  const double gap = n > 64 ? 0 : 0.12;
  for (std::size_t i = 0; i < n; ++i) {
    if (counts[i] <= 0) continue;
    const auto at = static_cast<double>(i);
    bars += fmt::format("M{} {}V{}H{}V{}z", px(frame.x(at + gap)), px(frame.y(-0.3)),
                        px(frame.y(std::log10(static_cast<double>(counts[i])))),
                        px(frame.x(at + 1 - gap)), px(frame.y(-0.3)));
  }
  text += fmt::format(R"(<path class="bars" d="{}"/>)", bars) + frame.box();
  const std::size_t stride = n > 17 ? (n + 6) / 7 : 1;
  for (std::size_t i = 0; i < n; i += stride)
    text += frame.x_tick(static_cast<double>(i) + 0.5, number(values[i]));
  return text + frame.x_title("value of the code, in units of its scale") + "</svg>";
}

}  // namespace svg

namespace {

std::string figure(const std::string& caption, const std::string& picture) {
  return picture.empty() ? ""
                         : fmt::format("<figure><figcaption>{}</figcaption>{}</figure>",
                                       escaped(caption), picture);
}

std::string percent(double share) { return fmt::format("{:.2f}%", 100 * share); }

// Pale to deep over the range of the scales; what has no logarithm stands out.
std::string scale_map(const Quantised& q) {
  double low = INFINITY, high = -INFINITY;
  for (const double cell : q.scales->cells)
    if (std::isfinite(cell)) low = std::min(low, cell), high = std::max(high, cell);
  if (!(high >= low)) return "";
  const auto step = [&](double cell) {
    if (!std::isfinite(cell)) return svg::kSteps - 1;
    return high > low
               ? static_cast<int>(std::lround((cell - low) / (high - low) * (svg::kOver - 1)))
               : 2;
  };
  return figure(
      fmt::format("scales ({}), pale 2^{} to deep 2^{}; red: 0 or no number", q.scale_format,
                  number(low), number(high)),
      svg::heatmap(*q.scales, {.rows = q.scale_rows, .cols = q.scale_cols}, "scales", step));
}

}  // namespace

std::string html_quantised(const Quantised& q) {
  std::string sentence = fmt::format("{} as {}", count_of(q.elements, "element"), q.format);
  if (q.not_numbers > 0)
    sentence += fmt::format("; {} of them no number", count_of(q.not_numbers, "code"));
  if (q.saturated) sentence += fmt::format("; {} beyond the largest code", percent(*q.saturated));
  if (q.underflowed) sentence += fmt::format("; {} became zero", percent(*q.underflowed));
  if (q.sqnr) sentence += fmt::format("; signal to noise {:.1f} dB", *q.sqnr);
  std::string text = fmt::format(
      R"(<h4>Quantisation</h4><p class="soft">{}.</p><div class="pics">)", escaped(sentence));
  text += figure("codes", svg::code_histogram(q.values, q.counts));
  if (q.scales) text += scale_map(q);
  if (q.scatter)
    text +=
        figure("error of the dequantised value against magnitude of x", svg::scatter(*q.scatter));
  text += "</div>";
  page::Table table({"$other chain, same data", "#scales that differ", "#codes that differ"});
  for (const OtherChain& other : q.others)
    table.row({escaped(other.chain), percent(other.scales), percent(other.codes)});
  return text + (table.empty() ? "" : table.html());
}

}  // namespace parity::reports
