// One case, opened: verdict and repro, tensors sorted by share of the bound, gradients, and for
// each tensor in full its views, its worst points and its pictures.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <span>

#include "reports/gradients.hpp"
#include "reports/page.hpp"
#include "reports/svg.hpp"
#include "reports/words.hpp"

namespace parity::reports::page {
namespace {

std::string term(std::string_view name, const std::string& html) {
  return html.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>", name, html);
}

std::vector<const TensorRecord*> by_use(const CaseRecord& record) {
  std::vector<const TensorRecord*> order;
  for (const TensorRecord& tensor : record.tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::ranges::greater{}, [](const TensorRecord* tensor) {
    return std::pair(telling_view(*tensor) != nullptr,
                     std::isnan(tensor->bound_used) ? INFINITY : tensor->bound_used);
  });
  return order;
}

std::string red(const std::string& html, bool is) {
  return is ? fmt::format("<span class=\"fail\">{}</span>", html) : html;
}

// Of a whole model's hundreds of tensors those that tell most; the rest behind a line to open.
constexpr std::size_t kRows = 20, kSections = 8;

template <class List, class MakeTable>
std::string in_two_parts(const List& rows, std::string_view noun, const MakeTable& table) {
  const std::size_t shown = rows.size() > kRows + kRows / 4 ? kRows : rows.size();
  std::string text = table(std::span(rows).first(shown));
  if (shown < rows.size())
    text += fmt::format(R"(<details class="more"><summary>{} more {}</summary>{}</details>)",
                        rows.size() - shown, noun, table(std::span(rows).subspan(shown)));
  return text;
}

std::string tensors_table(std::span<const TensorRecord* const> order) {
  Table table({"$tensor", "role", "dtype, shape", "share of the bound", "violated", "#base",
               "#rel L2", "#of base", "#max ulp", "#gain", "@worst at"});
  for (const TensorRecord* t : order) {
    const ViewResult* view = telling_view(*t);
    const bool based = !t->worst || t->worst->base;  // golden verify has no base
    table.row(
        {red(escaped(t->name), view), escaped(t->role),
         fmt::format("<code>{} {}</code>", escaped(t->dtype), shape_of(*t)), bar(t->bound_used),
         view ? red(fmt::format("{} ({})", escaped(view->view), times(excess(*view))), true) : "",
         based ? number(t->base_bound_used) : "–", number(t->rel_l2),
         based ? number(t->rel_l2_base) : "–", number(t->max_ulp), number(t->gain),
         t->worst ? escaped(t->worst->letters) : ""});
  }
  return table.html();
}

std::string gradients_table(std::span<const GradientRow> rows) {
  Table table({"$parameter", "shape", "#|g*|", "#rel L2", "#max r", "#cosine", "#norm ratio",
               "#offset z", "#gain z", "#of total error", "status"});
  for (const GradientRow& row : rows) {
    const TensorRecord& t = *row.tensor;
    table.row({escaped(row.name), fmt::format("<code>{}</code>", shape_of(t)), number(row.norm),
               number(t.rel_l2), number(t.bound_used), precise(t.cosine), precise(t.norm_ratio),
               number(t.offset_z), number(t.gain_z), fmt::format("{:.1f}%", 100 * row.share),
               badge(t.status)});
  }
  return table.html();
}

std::string views_table(const TensorRecord& tensor) {
  Table table({"view", "#value", "#limit", "", "where"});
  for (const ViewResult& view : tensor.views)
    table.row({escaped(view.view), number(view.value), number(view.limit),
               badge(view.ok ? "pass" : "fail"), escaped(view.detail)});
  return table.empty() ? "" : table.html();
}

std::string points_table(const TensorRecord& tensor) {
  Table table({"$worst points", "#truth", "#base", "#candidate", "#ulp", "#r"});
  for (const WorstPoint& p : tensor.worst_points)
    table.row({escaped(p.letters), precise(p.truth), of_base(p.base), precise(p.candidate),
               number(p.ulp), number(p.bound_used)});
  return table.empty() ? "" : table.html();
}

// The kernel's chunk, where its id says one; 64, the common one, else.
std::int64_t chunk_of(const CaseRecord& record) {
  const std::size_t at = record.id.rfind("chunk=");
  std::int64_t chunk = 64;
  if (at != std::string::npos)
    std::from_chars(record.id.data() + at + 6, record.id.data() + record.id.size(), chunk);
  return chunk > 0 ? chunk : 64;
}

std::int64_t extent_of(const TensorRecord& tensor, std::string_view axis) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  };  // "HV" is drawn as hv
  for (std::size_t i = 0; i < std::min(tensor.axes.size(), tensor.shape.size()); ++i)
    if (std::ranges::equal(tensor.axes[i], axis, same)) return tensor.shape[i];
  return 0;
}

std::string figure(std::string_view caption, const std::string& svg) {
  return svg.empty()
             ? ""
             : fmt::format("<figure><figcaption>{}</figcaption>{}</figure>", escaped(caption), svg);
}

// By position along time first, then axes whose errors are structured; four at most.
std::vector<const AxisProfile*> telling_profiles(const TensorRecord& tensor) {
  std::vector<const AxisProfile*> order;
  for (const AxisProfile& profile : tensor.profiles) order.push_back(&profile);
  const auto rank = [](const AxisProfile* p) {
    return p->axis == "t" ? -1e300 : -(p->chi_limit > 0 ? p->chi_square / p->chi_limit : 0);
  };
  std::ranges::stable_sort(order, {}, rank);
  if (order.size() > 4) order.resize(4);
  return order;
}

std::string pictures_of(const CaseRecord& record, const TensorRecord& tensor) {
  const std::int64_t chunk = chunk_of(record);
  const auto extent = [&](const std::string& axis, std::size_t bins) {
    const std::int64_t known = extent_of(tensor, axis);
    return known ? known : static_cast<std::int64_t>(bins);
  };
  std::string text;
  for (const Heatmap& map : tensor.heatmaps)
    if (map.height > 1 && map.width > 1)
      text +=
          figure(fmt::format("share of the bound by {} and {}", map.rows, map.cols),
                 svg::heatmap(map, {.rows = extent(map.rows, static_cast<std::size_t>(map.height)),
                                    .cols = extent(map.cols, static_cast<std::size_t>(map.width)),
                                    .chunk = chunk}));
  text +=
      figure("errors in ulps", svg::ulp_histogram(tensor.ulp_histogram, tensor.ulp_histogram_base));
  if (tensor.scatter) text += figure("error against magnitude", svg::scatter(*tensor.scatter));
  for (const AxisProfile* profile : telling_profiles(tensor)) {
    const std::string structure =
        profile->chi_square > profile->chi_limit && profile->chi_limit > 0
            ? fmt::format(": structured, chi-square {} over {}", number(profile->chi_square),
                          number(profile->chi_limit))
            : "";
    text += figure(fmt::format("share of the bound by {}{}", profile->axis, structure),
                   svg::profile(*profile, extent(profile->axis, profile->bound_used.size()),
                                profile->axis == "t" ? chunk : 0));
  }
  return text.empty() ? "" : "<div class=\"pics\">" + text + "</div>";
}

std::string tensor_section(const CaseRecord& record, const TensorRecord& tensor) {
  const ViewResult* view = telling_view(tensor);
  std::string text =
      fmt::format("<div class=\"tensor\"><h4><code>{}</code> {} {}</h4>", escaped(tensor.name),
                  badge(tensor.status),
                  view ? escaped(view->view) + " " + bar(excess(*view)) : bar(tensor.bound_used));
  std::string quantiles;
  for (const auto& [name, value] : tensor.quantiles)
    quantiles +=
        fmt::format("{}{} {}", quantiles.empty() ? "" : ", ", escaped(name), number(value));
  text +=
      "<dl>" + term("where", escaped(where_failed(tensor))) +
      term("bound", fmt::format("{}: {}", escaped(tensor.bound_kind), escaped(tensor.bound_why))) +
      term("would pass",
           tensor.bound_that_would_pass > 1
               ? fmt::format("{} times this bound", number(tensor.bound_that_would_pass))
               : "") +
      term("detectable",
           tensor.detectable > 0
               ? fmt::format("a relative change of {} would have failed", number(tensor.detectable))
               : "") +
      term("quantiles", quantiles.empty() ? "" : "of the share of the bound: " + quantiles) +
      "</dl>";
  const std::string points = points_table(tensor);
  text += points.empty() ? views_table(tensor)
                         : "<div class=\"two\">" + views_table(tensor) + points + "</div>";
  return text + pictures_of(record, tensor) + "</div>";
}

}  // namespace

std::string details(const CaseRecord& record, bool pictures, const std::string& layers) {
  const Times& t = record.time_ms;
  const auto order = by_use(record);
  std::string text = "<div class=\"body\"><dl>" + term("reason", escaped(record.reason)) +
                     term("astray", escaped(sentence(first_astray(record))));
  for (const std::string& complaint : record.accounting.complaints)
    text += term("accounting", escaped(complaint));
  if (pictures) {
    text += term("contract", escaped(record.contract));
    if (record.views.size() > 1)
      text += term("violated", escaped(fmt::format("{}", fmt::join(record.views, ", "))));
    text +=
        term("accounting",
             fmt::format("{} produced, {} compared, {} unwritten; inputs {}, canaries {}",
                         bytes_of(record.accounting.produced), bytes_of(record.accounting.compared),
                         bytes_of(record.accounting.unwritten),
                         record.accounting.inputs_unchanged ? "unchanged" : "CHANGED",
                         record.accounting.canaries_whole ? "whole" : "BROKEN"));
    text += term("hardware", record.hw_verified ? "verified on its own target" : "");
    text += term("time", fmt::format("generate {}, reference {}, base {}, kernel {}, compare {}",
                                     duration(t.generate), duration(t.reference), duration(t.base),
                                     duration(t.kernel), duration(t.compare)));
  }
  text +=
      "</dl>" +
      fmt::format(
          R"(<div class="repro"><code>{}</code><button data-copy>copy</button><button data-link>link</button></div>)",
          escaped(record.repro));
  if (order.empty()) return text + "</div>";
  text += layers;
  text += in_two_parts(order, "tensors", tensors_table);
  if (pictures) {
    if (const std::vector<GradientRow> rows = gradient_rows(record); !rows.empty())
      text += "<h4>Gradients</h4>" + in_two_parts(rows, "gradients", gradients_table);
    // Of a failing case the tensors that fail, of a passing one those nearest to their bound.
    std::size_t shown = 0, left = 0;
    for (const TensorRecord* tensor : order) {
      const bool fails = telling_view(*tensor);
      if (shown < (fails ? kSections : 2))
        text += tensor_section(record, *tensor), ++shown;
      else
        left += fails;
    }
    if (left > 0)
      text += fmt::format(
          R"(<p class="soft">{} more that do not pass are in the table alone; records.jsonl has their points.</p>)",
          left);
  }
  return text + "</div>";
}

}  // namespace parity::reports::page
