#include "reports/gradients.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::size_t kNameWidth = 56;

double r_of(const TensorRecord& t) { return std::isnan(t.bound_used) ? INFINITY : t.bound_used; }

// Long names lose their head: what tells parameters apart is at the end.
std::string tail(const std::string& name) {
  return name.size() <= kNameWidth ? name : ".." + name.substr(name.size() - kNameWidth + 2);
}

struct Tap {
  std::int64_t layer = 0;
  bool backward = false;
};

std::optional<Tap> tap_of(std::string_view name) {
  Tap tap;
  tap.backward = name.starts_with("grads/");
  const std::size_t at = name.find("tap/layer");
  if (at == std::string_view::npos) return {};
  const char* const first = name.data() + at + std::string_view("tap/layer").size();
  const auto [end, error] = std::from_chars(first, name.data() + name.size(), tap.layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return {};
  return tap;
}

bool beyond(const TensorRecord& t) { return t.status == "fail"; }

// "model.layers.7.w": 7.
std::optional<std::int64_t> layer_of(std::string_view parameter) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = parameter.find(kLayers);
  if (at == std::string_view::npos) return {};
  std::int64_t layer = 0;
  const char* const end = parameter.data() + parameter.size();
  const auto [stop, error] = std::from_chars(parameter.data() + at + kLayers.size(), end, layer);
  return error == std::errc() && stop != end && *stop == '.' ? std::optional(layer) : std::nullopt;
}

}  // namespace

bool has_parameters(const CaseRecord& record) {
  return std::ranges::any_of(record.tensors,
                             [](const TensorRecord& t) { return !t.parameter.empty(); });
}

std::vector<GradientRow> gradient_rows(const CaseRecord& record) {
  std::vector<GradientRow> rows;
  double total = 0;
  const bool parameters = has_parameters(record);
  for (const TensorRecord& t : record.tensors) {
    if (parameters ? t.parameter.empty() : t.role != "gradient") continue;
    GradientRow row{&t, t.parameter.empty() ? t.name : t.parameter,
                    t.truth_rms * std::sqrt(static_cast<double>(t.elements)), 0};
    row.share = t.rel_l2 * row.norm * t.rel_l2 * row.norm;
    total += row.share;
    rows.push_back(std::move(row));
  }
  for (GradientRow& row : rows) row.share = total > 0 ? row.share / total : 0;
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           [](const GradientRow& row) { return r_of(*row.tensor); });
  return rows;
}

Astray first_astray(const CaseRecord& record) {
  Astray first;
  std::int64_t layer = 0;
  for (const TensorRecord& t : record.tensors) {
    const std::optional<Tap> tap = tap_of(t.name);
    if (!tap || !beyond(t)) continue;
    const bool earlier = first.backward != tap->backward ? first.backward
                         : tap->backward                 ? tap->layer > layer
                                                         : tap->layer < layer;
    if (first.tensor && !earlier) continue;
    first.tensor = &t;
    first.backward = tap->backward;
    layer = tap->layer;
  }
  // No result on the way, but a parameter's gradient, which nothing reads.
  if (!first.tensor)
    for (const TensorRecord& t : record.tensors) {
      const std::optional<std::int64_t> of = layer_of(t.parameter);
      if (!of || !beyond(t) || (first.tensor && *of <= layer)) continue;
      first.tensor = &t;
      first.backward = true;
      layer = *of;
    }
  if (!first.tensor) return first;
  first.layer = fmt::format("layer{}", layer);
  for (const GradientRow& row : gradient_rows(record))
    if (!row.tensor->parameter.empty() && beyond(*row.tensor) && layer_of(row.name) == layer) {
      first.parameter = row.tensor;
      break;
    }
  return first;
}

std::string sentence(const Astray& astray) {
  if (!astray.tensor) return "";
  std::string text = fmt::format(
      "{}: {} is the first {} beyond its bound, {} of it", astray.layer, astray.tensor->name,
      astray.backward ? "gradient, from the last layer down," : "result in forward order",
      times(astray.tensor->bound_used));
  if (astray.parameter && astray.parameter != astray.tensor)
    text += fmt::format("; of its parameters farthest {}, {}", astray.parameter->parameter,
                        times(astray.parameter->bound_used));
  return text;
}

std::string console_gradients(const CaseRecord& record, std::size_t rows) {
  const std::vector<GradientRow> all = gradient_rows(record);
  if (all.empty()) return "";
  const std::size_t shown = std::min(rows, all.size());
  std::size_t width = 9;
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, tail(all[i].name).size());
  std::string text =
      fmt::format("{:<{}} {:>12} {:>9} {:>9} {:>9} {:>11} {:>8} {:>9}\n", "gradient", width,
                  "shape", "|g*|", "r", "rel L2", "norm ratio", "bias z", "error");
  for (std::size_t i = 0; i < shown; ++i) {
    const TensorRecord& t = *all[i].tensor;
    text += fmt::format("{:<{}} {:>12} {:>9} {:>9} {:>9} {:>11} {:>8} {:>8}%{}\n",
                        visible(tail(all[i].name)), width, shape_of(t), number(all[i].norm),
                        number(t.bound_used), number(t.rel_l2), precise(t.norm_ratio),
                        number(t.offset_z), number(100 * all[i].share),
                        t.status == "pass" ? "" : " " + visible(t.status));
  }
  if (shown < all.size()) {
    double share = 0;
    for (std::size_t i = shown; i < all.size(); ++i) share += all[i].share;
    text += fmt::format("and {} more with {:.1f}% of the squared error: -v, or the page\n",
                        all.size() - shown, 100 * share);
  }
  return text;
}

}  // namespace parity::reports
