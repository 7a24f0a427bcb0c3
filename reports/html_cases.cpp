// The list of cases: what does not pass first, then groups by kernel; each case opens to its
// details.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/page.hpp"
#include "reports/waterfall.hpp"
#include "reports/words.hpp"

namespace parity::reports::page {
namespace {

std::string row(const CaseRecord& record, bool pictures, const std::string& layers) {
  const bool expected = record.status == "fail" && record.expected == "fail";
  std::string text =
      fmt::format(R"(<details class="case" id="{}"><summary>{}<code>{}</code>)",
                  escaped(anchor_of(record)), badge(record.status), escaped(record.id));
  std::vector<std::string> tags;
  if (!record.direction.empty() && record.direction != "both") tags.push_back(record.direction);
  if (!record.check.empty() && record.check != "parity") tags.push_back(record.check);
  const TensorRecord* tensor = record.status == "fail" ? telling_tensor(record) : nullptr;
  const ViewResult* view = tensor ? telling_view(*tensor) : nullptr;
  if (view)
    tags.push_back(tensor->name + " · " + view->view);
  else if (!record.view.empty())
    tags.push_back(record.view);
  if (!record.error_kind.empty()) tags.push_back(record.error_kind);
  if (expected) tags.push_back("damaged, fails as it must");
  text += fmt::format(R"(<span class="tag">{}</span>)",
                      escaped(fmt::format("{}", fmt::join(tags, " · "))));
  if (view)
    text += bar(excess(*view));
  else if (!record.tensors.empty())
    text += bar(max_bound_used(record));
  return text + "</summary>" + details(record, pictures, layers) + "</details>\n";
}

// "kda.chunked_f32", "kda reference": what names its op already is not told it twice.
std::string candidate_of(const CaseRecord& record) {
  return record.kernel.starts_with(record.op) ? record.kernel : record.op + " " + record.kernel;
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

Cases cases(const RunFolder& folder) {
  // Bytes of cases in full, with pictures: of those that stand in the page as they are, and of
  // those that are packed (to about a third).
  constexpr std::size_t kPlainRoom = 2u << 20, kPackedRoom = 5u << 20;
  std::vector<std::size_t> order(folder.cases.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return interest(folder.cases[i]); });

  std::map<const CaseRecord*, std::string> sections;  // what some cases have beside the common
  for (const Waterfall& w : waterfalls(folder.cases))
    sections[w.whole] = sections[w.alone] = html_waterfall(w);
  std::map<std::string, const Quantised*> quantised;
  for (const Quantised& q : folder.quantised) quantised[q.id + " " + q.check] = &q;
  for (const CaseRecord& record : folder.cases)
    if (const auto found = quantised.find(record.id + " " + record.check); found != quantised.end())
      sections[&record] += html_quantised(*found->second);
  const auto full_row = [&](const CaseRecord& record) {
    const auto found = sections.find(&record);
    return row(record, true, found == sections.end() ? "" : found->second);
  };

  struct Group {
    std::string html = {};
    std::vector<std::size_t> members = {};
  };
  std::string plain;
  std::size_t full = 0, wrong = 0;  // bytes of packed cases in full; cases that do not pass
  std::map<std::string, Group> groups;
  for (const std::size_t i : order) {
    const CaseRecord& record = folder.cases[i];
    const bool trouble = unexpected(record);
    wrong += trouble;
    if (trouble) {
      std::string text = full_row(record);
      if (plain.size() + text.size() <= kPlainRoom) {
        plain += text;
        continue;
      }
    }
    std::string text;
    if (full < kPackedRoom && (interest(record) >= 0 || sections.contains(&record)))
      full += (text = full_row(record)).size();
    else
      text = row(record, false, "");
    Group& group =
        groups[trouble ? ""  // what had no room above comes first
                       : fmt::format("{} {} {} {} {}", record.status == "pass" ? 0 : 1, record.op,
                                     record.kernel, record.dtype, record.status)];
    group.html += text;
    group.members.push_back(i);
  }

  Cases out;
  out.html = fmt::format(R"(<h2 id="cases" data-total="{}">Cases</h2>)", folder.cases.size());
  out.html +=
      R"(<p class="soft"><kbd>/</kbd> filters by words of the id, status or check (a leading - excludes), <kbd>n</kbd> and <kbd>p</kbd> step through )"
      R"(what is open. Candidates nearest to their bound come first, with pictures.</p>)"
      R"(<noscript><p>The groups below open with scripts only; records.jsonl beside this page holds every case.</p></noscript>)";
  if (wrong) out.html += fmt::format("<h3>Does not pass ({})</h3>{}", wrong, plain);
  std::size_t part = 0;
  for (const auto& [key, group] : groups) {
    const CaseRecord& first = folder.cases[group.members.front()];
    double used = 0;
    for (const std::size_t i : group.members)
      used = std::max(used, max_bound_used(folder.cases[i]));
    const auto n = static_cast<std::int64_t>(group.members.size());
    const std::string title =
        key.empty()
            ? "<b>more that does not pass</b>"
            : fmt::format("<b>{}</b> {}", escaped(candidate_of(first)), escaped(first.dtype));
    out.html += fmt::format(
        R"(<details class="group"><summary>{}{}<span class="soft">{}</span>{}</summary><div class="in" data-part="{}"></div></details>)",
        badge(first.status), title,
        count_of(n, first.status == "fail" && !key.empty() ? "expected failure" : "case"),
        first.status == "pass" ? bar(used) : "", part);
    if (part++) out.packed += kPartEnd;
    out.packed += group.html;
  }
  return out;
}

}  // namespace parity::reports::page
