// Markdown for a CI job's step summary (GitHub takes 1 MiB of it): the verdict, what failed with
// its repro, what passed by group, the kill table's result.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/json_writer.hpp"
#include "reports/reports.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::size_t kRoom = 900u << 10;  // bytes of rows; what follows them is small
constexpr std::size_t kCell = 600;         // bytes of a cell

// Text that stays text inside a table cell.
std::string cell(std::string_view raw) {
  std::string text = visible(raw.substr(0, kCell));
  text = valid_utf8(text);
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '_' || c == '[')
      out += '\\', out += c;
    else
      out += c;
  }
  return out;
}

// Code in a cell: a backtick would end it, a bar would end the cell.
std::string code(std::string_view raw) {
  std::string text = valid_utf8(visible(raw.substr(0, kCell)));
  std::ranges::replace(text, '`', '\'');
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return "`" + out + "`";
}

std::string troubled(const std::vector<CaseRecord>& records) {
  std::vector<const CaseRecord*> list;
  for (const CaseRecord& record : records)
    if (unexpected(record)) list.push_back(&record);
  if (list.empty()) return "";
  std::ranges::stable_sort(list, {}, [](const CaseRecord* record) {
    return std::pair(parse_status(record->status), record->op);
  });
  std::string text =
      "\n## What does not pass\n\n| status | case | what | where | repro "
      "|\n|---|---|---|---|---|\n";
  std::size_t shown = 0;
  for (const CaseRecord* record : list) {
    const TensorRecord* tensor = record->status == "fail" ? telling_tensor(*record) : nullptr;
    const std::string row =
        fmt::format("| {} | {} | {} | {} | {} |\n", record->status, code(record->id),
                    cell(tensor ? what_failed(*tensor) : record->reason),
                    cell(tensor ? where_failed(*tensor) : ""), code(record->repro));
    if (text.size() + row.size() > kRoom) break;
    text += row;
    ++shown;
  }
  if (shown < list.size())
    text += fmt::format("\n{} more are in the page and in `records.jsonl`.\n", list.size() - shown);
  return text;
}

struct Group {
  std::int64_t pass = 0, other = 0;
  double used = 0;
};

std::string groups(const std::vector<CaseRecord>& records) {
  std::map<std::vector<std::string>, Group> table;
  for (const CaseRecord& record : records) {
    Group& group = table[{record.op, record.kernel, record.dtype}];
    ++(record.status == "pass" ? group.pass : group.other);
    const double used = max_bound_used(record);
    if (record.status == "pass" && !(used <= group.used)) group.used = used;
  }
  std::string text =
      "\n## By kernel\n\n| op | kernel | dtype | pass | other | widest share of its bound | "
      "headroom |\n|---|---|---|--:|--:|--:|--:|\n";
  std::size_t room = 60u << 10;
  for (const auto& [key, group] : table) {
    const std::string row =
        fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", cell(key[0]), cell(key[1]),
                    cell(key[2]), group.pass, group.other, group.pass ? number(group.used) : "",
                    group.pass ? headroom(group.used) : "");
    if (row.size() > room) break;
    room -= row.size();
    text += row;
  }
  return text;
}

}  // namespace

std::string markdown(const RunFolder& folder) {
  const Counts counts = counts_of(folder.cases);
  std::string text = fmt::format("# parity: exit {}, {}\n\n**{}**\n\n", folder.exit,
                                 exit_meaning(folder), summary_line(counts));
  text += fmt::format("Commit {}, lane {}, {}.\n", code(short_commit(folder.run.commit)),
                      cell(folder.run.lane), duration(folder.wall_ms));
  for (const Complaint& complaint : folder.complaints)
    text += fmt::format("\n> exit {}: {}\n", complaint.exit, cell(complaint.text));
  text += troubled(folder.cases);
  text += groups(folder.cases);
  for (const Status status : {Status::Unsupported, Status::Waived}) {
    const auto reasons = reasons_of(folder.cases, status);
    if (reasons.empty()) continue;
    text += fmt::format("\n{}:\n", name(status));
    for (std::size_t i = 0; i < std::min<std::size_t>(reasons.size(), 20); ++i)
      text += fmt::format("- {} ({})\n", cell(reasons[i].text), reasons[i].cases);
  }
  if (folder.mutation) {
    const MutationSummary& m = *folder.mutation;
    text += fmt::format(
        "\n## Proof that the gate can fail\n\n{} mutants killed, {} survived, {} unsupported; {} "
        "false alarms on {} clean variants.\n",
        m.killed, m.survived, m.unsupported, m.false_alarms, m.clean);
    std::size_t shown = 0;
    for (const MutantRecord& mutant : folder.mutants)
      if (mutant.status == "survived" && ++shown <= 50)
        text += fmt::format("- survived: {} ({})\n", code(mutant.id), cell(mutant.what));
  }
  return text;
}

}  // namespace parity::reports
