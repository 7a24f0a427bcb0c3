// The verdict of `parity drift` on a terminal and as JSON.
#include "reports/drift.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "reports/json_writer.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

using drift::ColumnVerdict;
using drift::Judgement;
using drift::Verdict;

constexpr std::size_t kMostColumns = 16, kMostRemarks = 12;

std::string painted(std::string_view text, Verdict verdict, const ConsoleStyle& style) {
  if (!style.colour) return std::string(text);
  const int colour = verdict == Verdict::Pass ? 32 : verdict == Verdict::Fail ? 31 : 33;
  return fmt::format("\033[1;{}m{}\033[0m", colour, text);
}

std::string percent(double relative) { return number(100 * relative) + " %"; }

std::string header(const DriftReport& report) {
  const Judgement& j = report.judgement;
  const auto parameters =
      std::ranges::count_if(j.columns, [](const ColumnVerdict& c) { return c.parameter; });
  std::string columns;
  for (const ColumnVerdict& c : j.columns)
    if (!c.parameter) columns += (columns.empty() ? "" : ", ") + visible(c.name);
  if (parameters > 0)
    columns += fmt::format("{}{} by parameter", columns.empty() ? "" : ", ",
                           count_of(parameters, "grad-norm"));
  return fmt::format("candidate   {}\nreferences  {}\nsteps       {}, {} to {}\njudged      {}\n",
                     visible(report.candidate), report.references.size(), report.steps,
                     report.first_step, report.last_step, columns);
}

std::string test(const Judgement& j) {
  return fmt::format(
      "test        rank of the largest of {} statistics x {} columns among {} exchangeable runs; "
      "alpha {:g}, attained {:.3g}\n",
      drift::kStatistics, j.columns.size(), j.references + 1, j.alpha, j.attainable);
}

std::string table(const Judgement& j, bool all) {
  std::vector<const ColumnVerdict*> rows;
  for (const ColumnVerdict& c : j.columns) rows.push_back(&c);
  // Loss and norm first, then what is furthest out.
  std::ranges::stable_sort(rows, [](const ColumnVerdict* a, const ColumnVerdict* b) {
    if (a->parameter != b->parameter) return b->parameter;
    return a->parameter && a->z > b->z;
  });
  std::size_t width = 6;
  const std::size_t shown = all ? rows.size() : std::min(rows.size(), kMostColumns);
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, visible(rows[i]->name).size());
  std::string text =
      fmt::format("\n{:<{}}  {:>6} {:>6} {:>9} {:>8}  {:<6} {:>7} {:>7}  {}\n", "column", width,
                  "p", "p all", "max sigma", "at step", "by", "slope p", "signs p",
                  j.verdict == Verdict::Fail ? "left its band" : "");
  for (std::size_t i = 0; i < shown; ++i) {
    const ColumnVerdict& c = *rows[i];
    std::string left;
    if (c.not_finite)
      left = fmt::format("no number at step {}", *c.not_finite);
    else if (j.verdict == Verdict::Fail && c.left_band)
      left = fmt::format("step {}, {} sigma", *c.left_band, number(c.left_sigma));
    text += fmt::format("{:<{}}  {:>6.3f} {:>6.3f} {:>9} {:>8}  {:<6} {:>7.3f} {:>7.3f}  {}\n",
                        visible(c.name), width, c.p, c.p_adjusted, number(c.max_sigma), c.max_step,
                        drift::name(c.telling), c.slope_p, c.signs_p, left);
  }
  if (shown < rows.size())
    text += fmt::format("and {} more; -v shows them\n",
                        count_of(std::ssize(rows) - static_cast<std::int64_t>(shown), "column"));
  return text + "\n";
}

// One reference: differences, with nothing to measure them by.
std::string differences(const Judgement& j, bool all) {
  std::string text = "\ncolumn, with the largest difference and its step\n";
  const std::size_t shown = all ? j.columns.size() : std::min(j.columns.size(), kMostColumns);
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("  {}  {} at step {}\n", visible(j.columns[i].name),
                        percent(j.columns[i].max_sigma), j.columns[i].max_step);
  return text + "\n";
}

std::string p_text(double p) { return p < 0.001 ? "< 0.001" : fmt::format("= {:.3f}", p); }

std::string growth(const DriftReport& report) {
  const drift::Growth& g = report.growth;
  const Judgement& j = report.judgement;
  std::string text = "divergence  ";
  if (!j.first_difference) return text + "none: the bits are those of a reference\n";
  text += fmt::format("bits differ from every reference from step {}", *j.first_difference);
  const auto step = [&](std::size_t i) {
    return report.difference_steps[std::min(i, report.difference_steps.size() - 1)];
  };
  if (g.e_folding) {
    const double stride = static_cast<double>(step(report.difference_steps.size()) - step(0)) /
                          static_cast<double>(report.difference_steps.size() - 1);
    text += fmt::format("; {} grows by e every {} steps", visible(report.about),
                        number(*g.e_folding * stride));
    text += g.saturated
                ? fmt::format(" up to step {}, then stays near {}", step(g.to), percent(g.level))
                : fmt::format(", is {} at the end and 1 % at step {:.0f} by extrapolation",
                              percent(g.level), static_cast<double>(step(0)) + *g.horizon * stride);
  }
  return text + "\n";
}

std::string weaker(const DriftReport& report) {
  return fmt::format(
      "weaker      one reference has no spread, so nothing says how far two right runs part here. "
      "The noise of\n            the difference itself (moving blocks of {} steps) gives a mean "
      "over "
      "the last half of {} ({} to {}),\n            p {} against none, and p {} "
      "against "
      "no trend: a hint, no verdict\n",
      report.shift.block, percent(report.shift.mean), percent(report.shift.low),
      percent(report.shift.high), p_text(report.shift.p), p_text(report.trend.p));
}

std::string details(const DriftReport& report) {
  const Judgement& j = report.judgement;
  std::string text;
  if (j.verdict == Verdict::Fail && j.first_parameter) {
    const ColumnVerdict& c = j.columns[*j.first_parameter];
    text += fmt::format("first       {} left its band at step {}, at {} sigma\n", visible(c.name),
                        c.left_band.value_or(0), number(c.left_sigma));
  }
  text += growth(report);
  if (report.references.size() == 1) return text + weaker(report);
  text += fmt::format(
      "last half   {} is {} from the median ({} to {}, {:g} % by moving blocks of {})\n",
      visible(report.about), percent(report.shift.mean), percent(report.shift.low),
      percent(report.shift.high), 100 * (1 - j.alpha), count_of(report.shift.block, "step"));
  for (const ColumnVerdict& c : j.columns)
    if (c.detectable && c.detectable_from_start)
      text += fmt::format(
          "detectable  a lasting shift of {} by {} from the start, or {} over the last half, is "
          "seen "
          "in 80 % of runs\n",
          visible(c.name), percent(*c.detectable_from_start), percent(*c.detectable));
  return text;
}

}  // namespace

int exit_of(const DriftReport& report) {
  const Verdict verdict = report.judgement.verdict;
  return verdict == Verdict::Pass ? 0 : verdict == Verdict::Fail ? 1 : 4;
}

std::string console_drift(const DriftReport& report, const ConsoleStyle& style) {
  const Judgement& j = report.judgement;
  std::string text = header(report) + test(j);
  if (!j.columns.empty())
    text += j.references == 1 ? differences(j, style.verbose) : table(j, style.verbose);
  if (!j.columns.empty()) text += details(report);
  const std::size_t shown =
      style.verbose ? report.remarks.size() : std::min(report.remarks.size(), kMostRemarks);
  for (std::size_t i = 0; i < shown; ++i)
    text +=
        fmt::format("{}{}\n", i == 0 ? "logs        " : "            ", visible(report.remarks[i]));
  if (shown < report.remarks.size())
    text += fmt::format("            and {} more remarks; -v shows them\n",
                        report.remarks.size() - shown);
  if (!report.not_judged.empty()) {
    std::string list;
    for (const std::string& name : report.not_judged)
      list += (list.empty() ? "" : ", ") + visible(name);
    if (list.size() > 200 && !style.verbose) list = list.substr(0, 200) + "...";
    text += "not judged  " + list + "\n";
  }
  std::string verdict(drift::name(j.verdict));
  std::ranges::transform(verdict, verdict.begin(), ::toupper);
  text += painted(verdict, j.verdict, style) + "  ";
  if (!j.columns.empty()) text += fmt::format("p = {:.4f}: ", j.p);
  return text + visible(j.reason) + "\n";
}

std::string drift_json(const DriftReport& report) {
  const Judgement& j = report.judgement;
  JsonWriter out;
  out.begin_object()
      .field("schema", 1)
      .field("verdict", drift::name(j.verdict))
      .field("reason", j.reason)
      .field("p", j.p)
      .field("alpha", j.alpha)
      .field("attainable_alpha", j.attainable)
      .field("k", j.references)
      .field("min_p", 1 / static_cast<double>(j.references + 1))
      .field("as_extreme", j.as_extreme)
      .field("candidate", report.candidate)
      .field("references", report.references)
      .field("first_step", report.first_step)
      .field("last_step", report.last_step)
      .field("steps", report.steps)
      .field("first_difference", j.first_difference)
      .field("identical", j.identical);
  const auto loss = std::ranges::find(j.columns, report.about, &ColumnVerdict::name);
  out.key("smallest_detectable");
  if (loss == j.columns.end())
    out.null();
  else
    out.value(loss->detectable);
  out.key("first_parameter");
  if (j.verdict == Verdict::Fail && j.first_parameter)
    out.value(j.columns[*j.first_parameter].name);
  else
    out.null();
  out.key("series").begin_array();
  for (const ColumnVerdict& c : j.columns) {
    out.begin_object()
        .field("name", c.name)
        .field("p", c.p)
        .field("p_adjusted", c.p_adjusted)
        .field("max_sigma", c.max_sigma)
        .field("step", c.max_step)
        .field("slope_p", c.slope_p)
        .field("signs_p", c.signs_p)
        .field("z", c.z)
        .field("statistic", drift::name(c.telling))
        .field("steps", c.steps)
        .field("left_band", j.verdict == Verdict::Fail ? c.left_band : std::nullopt)
        .field("detectable", c.detectable)
        .field("detectable_from_start", c.detectable_from_start)
        .field("not_finite", c.not_finite)
        .end_object();
  }
  out.end_array().key("growth").begin_object();
  out.field("series", report.about)
      .field("e_folding", report.growth.e_folding)
      .field("level", report.growth.level)
      .field("saturated", report.growth.saturated)
      .field("horizon", report.growth.horizon)
      .end_object();
  const auto interval = [&](const char* key, const drift::Interval& i) {
    out.key(key).begin_object();
    out.field("mean", i.mean)
        .field("low", i.low)
        .field("high", i.high)
        .field("p", i.p)
        .field("block", i.block)
        .field("weak", true)
        .end_object();
  };
  interval("shift", report.shift);
  interval("trend", report.trend);
  out.field("remarks", report.remarks)
      .field("not_judged", report.not_judged)
      .field("exit", exit_of(report))
      .end_object();
  return out.text() + "\n";
}

}  // namespace parity::reports
