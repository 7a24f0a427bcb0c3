// One case, opened: verdict and repro, tensors sorted by share of the bound, gradients, and for
// each tensor in full its views, its worst points and its pictures.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

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

std::string tensors_table(const std::vector<const TensorRecord*>& order) {
  std::string text =
      "<table><tr><th>tensor</th><th>role</th><th>dtype, shape</th><th>share of the bound</th><th "
      "class=\"n\">base</th><th class=\"n\">rel L2</th>"
      "<th class=\"n\">of base</th><th class=\"n\">max ulp</th><th class=\"n\">gain</th><th>worst "
      "at</th></tr>";
  for (const TensorRecord* t : order)
    text += fmt::format(
        "<tr><td class=\"name{}\">{}</td><td>{}</td><td class=\"mono\">{} {}</td><td>{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"id\">{}</td></tr>",
        telling_view(*t) ? " fail" : "", escaped(t->name), escaped(t->role), escaped(t->dtype),
        shape_of(*t), bar(t->bound_used), number(t->base_bound_used), number(t->rel_l2),
        number(t->rel_l2_base), number(t->max_ulp), number(t->gain),
        t->worst ? escaped(t->worst->letters) : "");
  return text + "</table>";
}

std::string gradients_table(const std::vector<const TensorRecord*>& order) {
  double total = 0;
  std::size_t n = 0;
  const auto norm = [](const TensorRecord& t) {
    return t.truth_rms * std::sqrt(static_cast<double>(t.elements));
  };
  const auto square = [&](const TensorRecord& t) {
    return t.rel_l2 * norm(t) * t.rel_l2 * norm(t);
  };
  for (const TensorRecord* t : order)
    if (t->role == "gradient") total += square(*t), ++n;
  if (n == 0) return "";
  std::string text =
      "<h4>Gradients</h4><table><tr><th>parameter</th><th>shape</th><th class=\"n\">|g*|</th><th "
      "class=\"n\">rel L2</th><th class=\"n\">max r</th>"
      "<th class=\"n\">cosine</th><th class=\"n\">norm ratio</th><th class=\"n\">offset z</th><th "
      "class=\"n\">gain z</th><th class=\"n\">of total error</th><th>status</th></tr>";
  for (const TensorRecord* t : order) {
    if (t->role != "gradient") continue;
    text += fmt::format(
        "<tr><td class=\"id\">{}</td><td class=\"mono\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td>{}</td></tr>",
        escaped(t->parameter.empty() ? t->name : t->parameter), shape_of(*t), number(norm(*t)),
        number(t->rel_l2), number(t->bound_used), precise(t->cosine), precise(t->norm_ratio),
        number(t->offset_z), number(t->gain_z),
        total > 0 ? fmt::format("{:.1f}%", 100 * square(*t) / total) : "0%", badge(t->status));
  }
  return text + "</table>";
}

std::string views_table(const TensorRecord& tensor) {
  if (tensor.views.empty()) return "";
  std::string text =
      "<table><tr><th>view</th><th class=\"n\">value</th><th "
      "class=\"n\">limit</th><th></th><th>where</th></tr>";
  for (const ViewResult& view : tensor.views)
    text += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
        escaped(view.view), number(view.value), number(view.limit),
        badge(view.ok ? "pass" : "fail"), escaped(view.detail));
  return text + "</table>";
}

std::string points_table(const TensorRecord& tensor) {
  if (tensor.worst_points.empty()) return "";
  std::string text =
      "<table><tr><th>worst points</th><th class=\"n\">truth</th><th class=\"n\">base</th><th "
      "class=\"n\">candidate</th><th class=\"n\">ulp</th><th class=\"n\">r</th></tr>";
  for (const WorstPoint& p : tensor.worst_points)
    text += fmt::format(
        "<tr><td class=\"id\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
        escaped(p.letters), precise(p.truth), precise(p.base), precise(p.candidate), number(p.ulp),
        number(p.bound_used));
  return text + "</table>";
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
  for (std::size_t i = 0; i < std::min(tensor.axes.size(), tensor.shape.size()); ++i)
    if (tensor.axes[i] == axis ||
        (tensor.axes[i].size() == axis.size() && std::tolower(tensor.axes[i][0]) == axis[0]))
      return tensor.shape[i];
  return 0;
}

std::string figure(std::string_view caption, const std::string& svg) {
  return svg.empty()
             ? ""
             : fmt::format("<figure><figcaption>{}</figcaption>{}</figure>", escaped(caption), svg);
}

std::string pictures_of(const CaseRecord& record, const TensorRecord& tensor) {
  const std::int64_t chunk = chunk_of(record);
  std::string text;
  for (const Heatmap& map : tensor.heatmaps) {
    const auto extent = [&](const std::string& axis, std::int64_t bins) {
      return extent_of(tensor, axis) ? extent_of(tensor, axis) : bins;
    };
    text +=
        figure(fmt::format("{}: share of the bound by {} and {}", tensor.name, map.rows, map.cols),
               svg::heatmap(map, {.rows = extent(map.rows, map.height),
                                  .cols = extent(map.cols, map.width),
                                  .chunk = chunk}));
  }
  text += figure(tensor.name + ": errors in ulps",
                 svg::ulp_histogram(tensor.ulp_histogram, tensor.ulp_histogram_base));
  if (tensor.scatter)
    text += figure(tensor.name + ": error against magnitude", svg::scatter(*tensor.scatter));
  for (const AxisProfile& profile : tensor.profiles) {
    const bool position = profile.axis == "t";
    const std::int64_t extent = extent_of(tensor, profile.axis);
    const std::string structure =
        profile.chi_square > profile.chi_limit
            ? fmt::format(" (structured: chi-square {} over {})", number(profile.chi_square),
                          number(profile.chi_limit))
            : "";
    text +=
        figure(fmt::format("{}: share of the bound by {}{}", tensor.name, profile.axis, structure),
               svg::profile(profile,
                            extent ? extent : static_cast<std::int64_t>(profile.bound_used.size()),
                            position ? chunk : 0));
  }
  return text.empty() ? "" : "<div class=\"pics\">" + text + "</div>";
}

std::string tensor_section(const CaseRecord& record, const TensorRecord& tensor) {
  std::string text =
      fmt::format("<div class=\"tensor\"><h4><code>{}</code> {} {}</h4>", escaped(tensor.name),
                  badge(tensor.status), bar(tensor.bound_used));
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

std::string details(const CaseRecord& record, bool pictures) {
  const Times& t = record.time_ms;
  const auto order = by_use(record);
  std::string text = "<div class=\"body\"><dl>" + term("reason", escaped(record.reason));
  if (const TensorRecord* tensor = record.status == "fail" ? telling_tensor(record) : nullptr)
    text += term("what", escaped(what_failed(*tensor)));
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
  text += tensors_table(order);
  if (pictures) {
    text += gradients_table(order);
    // Of a failing case the tensors that fail, of a passing one those nearest to their bound.
    std::size_t shown = 0;
    for (const TensorRecord* tensor : order)
      if (telling_view(*tensor) || shown < 2) text += tensor_section(record, *tensor), ++shown;
  }
  return text + "</div>";
}

namespace {

std::string row(const CaseRecord& record, bool pictures) {
  const bool expected = record.status == "fail" && record.expected == "fail";
  std::string text =
      fmt::format(R"(<details class="case" id="{}"><summary>{}<code>{}</code>)",
                  escaped(anchor_of(record)), badge(record.status), escaped(record.id));
  std::vector<std::string> tags;
  if (!record.direction.empty() && record.direction != "both") tags.push_back(record.direction);
  if (!record.check.empty() && record.check != "parity") tags.push_back(record.check);
  if (!record.view.empty()) tags.push_back(record.view);
  if (!record.error_kind.empty()) tags.push_back(record.error_kind);
  if (expected) tags.push_back("damaged, fails as it must");
  text += fmt::format(R"(<span class="tag">{}</span>)",
                      escaped(fmt::format("{}", fmt::join(tags, " · "))));
  if (!record.tensors.empty()) text += bar(max_bound_used(record));
  return text + "</summary>" + details(record, pictures) + "</details>\n";
}

// What a reader wants first: what is wrong, what is unproven, then what comes nearest to its bound.
double interest(const CaseRecord& record) {
  if (unexpected(record))
    return record.status == "fail" ? 4e9 : record.status == "error" ? 3e9 : 2e9;
  if (record.status == "fail" || record.status == "waived") return 1e9;
  const bool drawn = std::ranges::any_of(record.tensors, [](const TensorRecord& t) {
    return !t.heatmaps.empty() || !t.profiles.empty() || !t.ulp_histogram.empty();
  });
  return drawn ? std::min(max_bound_used(record), 1e6) : -1;
}

}  // namespace

std::string cases(const RunFolder& folder, std::size_t room) {
  std::vector<std::size_t> order(folder.cases.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return interest(folder.cases[i]); });
  std::vector<std::string> rows(folder.cases.size());
  std::size_t taken = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    taken += (rows[i] = row(folder.cases[i], false)).size();
  for (const std::size_t i : order) {
    if (interest(folder.cases[i]) < 0) break;
    std::string full = row(folder.cases[i], true);
    if (taken - rows[i].size() + full.size() > room) continue;
    taken += full.size() - rows[i].size();
    rows[i] = std::move(full);
  }

  std::string troubled;
  std::map<std::string, std::pair<std::string, std::vector<std::size_t>>>
      groups;  // by op and kernel
  std::size_t wrong = 0;
  for (const std::size_t i : order) {
    const CaseRecord& record = folder.cases[i];
    if (unexpected(record)) {
      troubled += rows[i];
      ++wrong;
      continue;
    }
    auto& [text, members] =
        groups[fmt::format("{} {} {} {} {}", record.status == "pass" ? 0 : 1, record.op,
                           record.kernel, record.dtype, record.status)];
    text += rows[i];
    members.push_back(i);
  }
  std::string text =
      R"(<h2 id="cases">Cases</h2><p class="soft"><kbd>/</kbd> filters by words of the id, status or check (a leading - excludes), <kbd>n</kbd> and <kbd>p</kbd> step through )"
      R"(what is open. Candidates nearest to their bound come first, with pictures.</p>)";
  if (wrong) text += fmt::format("<h3>Does not pass ({})</h3>{}", wrong, troubled);
  for (const auto& [key, group] : groups) {
    const CaseRecord& first = folder.cases[group.second.front()];
    double used = 0;
    for (const std::size_t i : group.second) used = std::max(used, max_bound_used(folder.cases[i]));
    const bool expected = first.status == "fail";
    text += fmt::format(
        R"(<details class="group"><summary>{}<b>{}</b> {}<span class="soft">{}</span>{}</summary><div class="in">{}</div></details>)",
        badge(first.status), escaped(first.kernel.empty() ? first.op : first.kernel),
        escaped(first.dtype),
        count_of(static_cast<std::int64_t>(group.second.size()),
                 expected ? "expected failure" : "case"),
        first.status == "pass" ? bar(used) : "", group.first);
  }
  return text;
}

}  // namespace parity::reports::page
