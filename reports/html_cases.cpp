// The list of cases: what does not pass first, then groups by kernel; each case opens to its
// details.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/page.hpp"
#include "reports/words.hpp"

namespace parity::reports::page {
namespace {

std::string row(const CaseRecord& record, bool pictures) {
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
