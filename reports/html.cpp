// The page: one file, no network, usable from a mail attachment.
#include <fmt/format.h>

#include "reports/pack.hpp"
#include "reports/page.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace page {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/,=@+:!";

std::string list(const char* title, const std::map<std::string, std::string>& map) {
  std::string text;
  for (const auto& [name, value] : map)
    text += fmt::format("<dt>{}</dt><dd class=\"mono\">{}</dd>", escaped(name), escaped(value));
  return text.empty() ? "" : fmt::format("<h3>{}</h3><dl>{}</dl>", title, text);
}

std::string count(std::int64_t n, const char* status, const char* words) {
  return fmt::format(R"(<div class="count{}"><b class="{}">{}</b>{}</div>)", n ? "" : " zero",
                     status, n, words);
}

// What was judged, in a sentence.
std::string judged(const RunFolder& folder) {
  std::map<std::string, int> ops, kernels, checks;
  std::int64_t compared = 0;
  for (const CaseRecord& record : folder.cases) {
    ++ops[record.op], ++kernels[record.kernel], ++checks[record.check];
    compared += record.accounting.compared;
  }
  std::string text = fmt::format("{}: {}, {}, {} of results compared with fp64 truth",
                                 count_of(static_cast<std::int64_t>(folder.cases.size()), "record"),
                                 count_of(static_cast<std::int64_t>(ops.size()), "op"),
                                 count_of(static_cast<std::int64_t>(kernels.size()), "candidate"),
                                 bytes_of(compared));
  std::vector<std::string> parts;
  for (const auto& [check, n] : checks)
    if (!check.empty()) parts.push_back(fmt::format("{} {}", n, escaped(check)));
  if (!parts.empty()) text += fmt::format(" ({})", fmt::join(parts, ", "));
  return text + ".";
}

// What a reader of a bad verdict asks first, one case a line.
std::string first_troubles(const RunFolder& folder) {
  constexpr std::int64_t kShown = 5;
  std::string list;
  std::int64_t shown = 0, all = 0;
  for (const std::string_view status : {"fail", "error", "unproven"})
    for (const CaseRecord& record : folder.cases) {
      if (record.status != status || !unexpected(record)) continue;
      if (++all > kShown) continue;
      ++shown;
      list += fmt::format(R"(<li>{} <a href="{}">{}</a><span class="soft">{}</span></li>)",
                          badge(record.status), link_to(record), escaped(record.id),
                          escaped(record.reason));
    }
  if (all > shown) list += fmt::format(R"(<li><a href="#cases">and {} more</a></li>)", all - shown);
  return list.empty() ? "" : "<ul class=\"top\">" + list + "</ul>";
}

}  // namespace

std::string anchor_of(const CaseRecord& record) {
  std::string anchor = record.id;
  if (!record.direction.empty() && record.direction != "both") anchor += "~" + record.direction;
  if (!record.check.empty() && record.check != "parity") anchor += "~" + record.check;
  return anchor;
}

std::string link_to(const CaseRecord& record) {
  std::string link = "#";
  for (const char c : anchor_of(record)) {
    if (kPlain.find(c) != std::string_view::npos)
      link += c;
    else
      link += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return link;
}

std::string badge(std::string_view status) {
  return fmt::format(R"(<span class="badge {0}">{0}</span>)", escaped(status));
}

std::string bar(double share) {
  const bool over = !(share <= 1);
  return fmt::format(R"(<span class="bar{}"><i style="--v:{:.0f}%"></i>{}</span>)",
                     over ? " over" : "", over ? 100 : share * 100,
                     over ? times(share) : number(share));
}

std::string of_base(std::optional<double> value) { return value ? precise(*value) : "–"; }

Table::Table(std::vector<std::string_view> titles) {
  for (std::string_view title : titles) {
    const char mark = title.empty() ? ' ' : title.front();
    classes_.push_back(mark == '#'   ? " class=\"n\""
                       : mark == '$' ? " class=\"name\""
                       : mark == '@' ? " class=\"id\""
                                     : "");
    if (mark == '#' || mark == '$' || mark == '@') title.remove_prefix(1);
    titles_ += fmt::format("<th{}>{}</th>", mark == '#' ? classes_.back() : "", escaped(title));
  }
}

void Table::row(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i)
    rows_ += fmt::format("<td{}>{}</td>", classes_.at(i), cells[i]);
  rows_ += "</tr>";
}

std::string Table::html() const {
  return fmt::format("<table><tr>{}</tr>{}</table>", titles_, rows_);
}

std::string headline(const RunFolder& folder) {
  const Counts counts = counts_of(folder.cases);
  const bool bad = folder.exit == 1 || folder.exit == 2 || folder.exit == 5;
  std::string text =
      fmt::format(R"(<section class="verdict{}" id="verdict"><h1 class="{}">{}</h1>)",
                  bad           ? " bad"
                  : folder.exit ? " weak"
                                : "",
                  bad           ? "fail"
                  : folder.exit ? "unproven"
                                : "pass",
                  folder.exit == 0 ? "Pass"
                  : bad            ? "Fail"
                                   : "Not proven");
  text += fmt::format("<p>Exit code {}: {}.</p><p class=\"soft\">{}</p>", folder.exit,
                      exit_meaning(folder), judged(folder));
  text += "<div class=\"counts\">" + count(counts.pass, "pass", "pass") +
          count(counts.fail, "fail", "fail") + count(counts.unproven, "unproven", "unproven") +
          count(counts.unsupported, "unsupported", "unsupported") +
          count(counts.error, "error", "error") + count(counts.waived, "waived", "waived");
  if (counts.expected_fail) text += count(counts.expected_fail, "expected", "expected fail");
  text += "</div>";
  for (const Complaint& complaint : folder.complaints)
    text += fmt::format("<p>{} {}</p>", badge("error"), escaped(complaint.text));
  text += first_troubles(folder);
  if (folder.mutation) {
    const MutationSummary& m = *folder.mutation;
    text += fmt::format(
        "<p><a href=\"#kill\">Would it have noticed?</a> {} of {} planted faults were caught, "
        "<span class=\"{}\">{} survived</span>, {} cannot be shown here; "
        "{} on {} clean variants.</p>",
        m.killed, m.killed + m.survived, m.survived ? "fail" : "", m.survived, m.unsupported,
        count_of(m.false_alarms, "false alarm"), m.clean);
  }
  for (const Status status : {Status::Unproven, Status::Unsupported, Status::Waived}) {
    const auto reasons = reasons_of(folder.cases, status);
    if (reasons.empty()) continue;
    text +=
        fmt::format(R"(<details><summary>why <span class="{0}">{0}</span>: {1}</summary><table>)",
                    name(status), count_of(static_cast<std::int64_t>(reasons.size()), "reason"));
    for (const Reason& reason : reasons)
      text += fmt::format("<tr><td class=\"n\">{}</td><td>{}</td></tr>", reason.cases,
                          escaped(reason.text));
    text += "</table></details>";
  }
  return text + "</section>";
}

std::string environment(const RunFolder& folder) {
  const RunRecord& run = folder.run;
  std::map<std::string, std::string> about = {
      {"started", run.started},
      {"commit", run.commit},
      {"lane", run.lane},
      {"wall time", duration(folder.wall_ms)},
      {"seeds", run.seed ? fmt::format("declared + {}", *run.seed) : "as declared"}};
  std::string text =
      R"(<h2 id="environment">Environment and provenance</h2><div class="card env">)";
  text += list("Run", about);
  text += fmt::format(R"(<div class="repro"><code>{}</code><button data-copy>copy</button></div>)",
                      escaped(run.command));
  text += list("Host", run.host) + list("Device", run.device);
  if (run.device.empty())
    text += "<h3>Device</h3><p class=\"soft\">None: no verdict here was reached on a GPU.</p>";
  return text + list("Compiler", run.compiler) + list("Flags", run.flags) +
         list("Libraries", run.libraries) + "</div>";
}

}  // namespace page

std::string html(const RunFolder& folder) {
  std::string text =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">";
  text += fmt::format("<title>parity: {}</title><style>{}</style></head><body>",
                      summary_line(counts_of(folder.cases)), page::style());
  text +=
      R"(<header class="top"><b>parity</b><nav><a href="#verdict">Verdict</a><a href="#matrix">Matrix</a><a href="#cases">Cases</a>)";
  if (folder.mutation) text += R"(<a href="#kill">Kill table</a>)";
  text +=
      R"(<a href="#bounds">Bounds</a><a href="#environment">Environment</a></nav><span class="soft" id="shown"></span>)"
      R"(<input id="filter" type="search" placeholder="filter: kda bf16 -pass" aria-label="filter cases" title="press / to filter, n and p to step through cases"><kbd>/</kbd>)"
      R"(<button id="theme" title="colour scheme">auto</button></header><main>)";
  const page::Cases cases = page::cases(folder);
  text += page::headline(folder) + page::matrix(folder) + cases.html + page::kill_table(folder) +
          page::ledger(folder) + page::environment(folder);
  text += R"(</main><div class="toast" id="toast"></div><script type="text/plain" id="packed">)";
  if (!cases.packed.empty()) text += packed(cases.packed);
  return text + fmt::format("</script><script>{}</script></body></html>\n", page::script());
}

}  // namespace parity::reports
