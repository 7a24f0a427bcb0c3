#include "reports/drift_page.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "reports/page.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

using drift::ColumnVerdict;

std::string table(const drift::Judgement& j) {
  page::Table rows({"$column", "#p", "#p of all", "#largest, σ", "#at step", "decided by",
                    "#slope p", "#signs p", "left its band", "#smallest shift seen"});
  std::vector<const ColumnVerdict*> order;
  for (const ColumnVerdict& c : j.columns) order.push_back(&c);
  std::ranges::stable_sort(order, [](const ColumnVerdict* a, const ColumnVerdict* b) {
    return a->parameter != b->parameter ? b->parameter : a->parameter && a->z > b->z;
  });
  for (const ColumnVerdict* c : order)
    rows.row({escaped(c->name), fmt::format("{:.3f}", c->p), fmt::format("{:.3f}", c->p_adjusted),
              number(c->max_sigma), std::to_string(c->max_step),
              std::string(drift::name(c->telling)), fmt::format("{:.3f}", c->slope_p),
              fmt::format("{:.3f}", c->signs_p),
              c->not_finite ? fmt::format("no number at step {}", *c->not_finite)
              : j.verdict == drift::Verdict::Fail && c->left_band
                  ? fmt::format("step {}, {} σ", *c->left_band, number(c->left_sigma))
                  : "",
              c->detectable ? number(100 * *c->detectable) + " %" : ""});
  return rows.html();
}

std::string list(const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = fmt::format("<h2>{}</h2><div class=\"card\"><ul>", title);
  for (const std::string& line : lines) text += "<li>" + escaped(line) + "</li>";
  return text + "</ul></div>";
}

}  // namespace

std::string drift_page(const DriftReport& report, const std::string& command) {
  const drift::Judgement& j = report.judgement;
  const std::string_view verdict = drift::name(j.verdict);
  std::string text = fmt::format(
      R"(<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>drift: {0}</title><style>{1}{2}</style></head><body><main><section class="verdict{3}"><h1 class="{0}">{4}</h1><p>{5}</p><p class="soft">{6} against {7}, steps {8} to {9}; p = {10:.4f}, &alpha; = {11:g} (attained {12:.3g})</p><p class="repro"><code>{13}</code></p></section>)",
      verdict, page::style(), drawing_style(),
      j.verdict == drift::Verdict::Fail       ? " bad"
      : j.verdict == drift::Verdict::Unproven ? " weak"
                                              : "",
      j.verdict == drift::Verdict::Fail       ? "Fail"
      : j.verdict == drift::Verdict::Unproven ? "Not proven"
                                              : "Pass",
      escaped(j.reason), escaped(report.candidate), count_of(j.references, "reference"),
      report.first_step, report.last_step, j.p, j.alpha, j.attainable, escaped(command));
  for (const std::size_t column : telling_columns(report))
    text += fmt::format("<figure class=\"card\" style=\"margin-top:14px\">{}</figure>",
                        svg_of(drift_figure(report, column), false));
  if (!j.columns.empty()) text += "<h2>Columns</h2><div class=\"card\">" + table(j) + "</div>";
  text += list("About the logs", report.remarks) + list("Not judged", report.not_judged);
  return text + "</main></body></html>\n";
}

}  // namespace parity::reports
