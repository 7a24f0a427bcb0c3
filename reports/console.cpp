// What a person reads first: one row per group of cases that agree, every disagreement expanded,
// the summary line last.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "reports/gradients.hpp"
#include "reports/reports.hpp"
#include "reports/waterfall.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr std::size_t kLines = 40;  // of a run, by default; -v lifts it
constexpr std::size_t kGroupLines = 12;
constexpr std::size_t kReasonLines = 4;
constexpr std::size_t kGradients = 20;

const char* colour_of(std::string_view status) {
  if (status == "pass" || status == "killed") return "\x1b[32m";
  if (status == "fail" || status == "survived") return "\x1b[1;31m";
  if (status == "error") return "\x1b[1;35m";
  if (status == "unproven" || status == "waived") return "\x1b[33m";
  return "\x1b[2m";
}

std::string paint(std::string_view text, const char* code, const ConsoleStyle& style) {
  return style.colour ? fmt::format("{}{}\x1b[0m", code, text) : std::string(text);
}

// Ten cells of the share of the bound that is used.
std::string bar(double used, const ConsoleStyle& style) {
  const double share = std::isnan(used) ? 1 : std::clamp(used, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(std::lround(share * 10));
  std::string cells;
  for (std::size_t i = 0; i < 10; ++i) cells += i < full ? "█" : "·";
  return paint(cells, used < 1 ? "\x1b[32m" : "\x1b[1;31m", style);
}

std::string status_word(std::string_view status, const ConsoleStyle& style) {
  const std::string word = status == "fail"    ? "FAIL"
                           : status == "error" ? "ERROR"
                                               : std::string(status);
  return paint(fmt::format("{:<11}", word), colour_of(status), style);
}

std::string clip(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width > 3 ? width - 3 : 0) + "...";
}

struct Group {
  const CaseRecord* widest = nullptr;
  double used = -1;
  std::int64_t cases = 0;
};

std::string group_rows(const std::vector<CaseRecord>& records, const ConsoleStyle& style) {
  std::map<std::string, Group> groups;
  for (const CaseRecord& record : records) {
    if (record.status != "pass") continue;
    Group& group = groups[fmt::format("{}|{}|{}", record.op, record.kernel, record.dtype)];
    ++group.cases;
    const double used = max_bound_used(record);
    if (used > group.used || !group.widest) group.used = used, group.widest = &record;
  }
  const auto named =
      [](const CaseRecord& record) {  // "kda reference": not every candidate says its op
        return visible(record.kernel.starts_with(record.op) ? record.kernel
                                                            : record.op + " " + record.kernel);
      };
  std::size_t widest_name = 10;
  for (const auto& [key, group] : groups)
    widest_name = std::clamp(named(*group.widest).size(), widest_name, std::size_t{44});
  std::string text;
  std::size_t lines = 0;
  for (const auto& [key, group] : groups) {
    if (!style.verbose && ++lines > kGroupLines) {
      text += fmt::format("            and {} more groups of passing cases: -v, or the page\n",
                          groups.size() - kGroupLines);
      break;
    }
    const CaseRecord& record = *group.widest;
    const TensorRecord* tensor = telling_tensor(record);
    text += status_word("pass", style) + " " +
            fmt::format("{:<{}} {:<5} {:>10}  {} {:>7}", clip(named(record), 44), widest_name,
                        visible(record.dtype), count_of(group.cases, "case"),
                        bar(group.used, style), headroom(group.used));
    if (tensor) {
      const std::string at =
          fmt::format("  {} {} {}", tensor->name,
                      record.sizes_text.empty() ? record.id : record.sizes_text, record.fill);
      text += paint(visible(clip(at, static_cast<std::size_t>(std::max(20, style.width - 82)))),
                    "\x1b[2m", style);
    }
    text += '\n';
  }
  return text;
}

std::size_t lines_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

std::string reason_rows(const std::vector<CaseRecord>& records, const ConsoleStyle& style) {
  std::string text;
  for (const Status status : {Status::Unproven, Status::Unsupported, Status::Waived}) {
    std::size_t shown = 0;
    for (const Reason& reason : reasons_of(records, status)) {
      if (!style.verbose && ++shown > kReasonLines) {
        text += fmt::format("{:<12}and other reasons: -v, or the page\n", "");
        break;
      }
      text += status_word(name(status), style) + " " +
              fmt::format("{:>4}  {}\n", reason.cases,
                          visible(clip(reason.text, style.verbose ? 4096 : 140)));
    }
  }
  return text;
}

}  // namespace

std::string console_header(const RunRecord& run) {
  const auto get = [](const std::map<std::string, std::string>& map, const char* key) {
    const auto found = map.find(key);
    return found == map.end() ? std::string() : found->second;
  };
  std::vector<std::string> parts = {"parity"};
  if (!run.commit.empty()) parts.push_back("commit " + short_commit(run.commit));
  if (const std::string cpu = get(run.host, "cpu"); !cpu.empty())
    parts.push_back(
        fmt::format("{} ({}, {} cores)", cpu, get(run.host, "isa"), get(run.host, "cores")));
  if (const std::string gpu = get(run.device, "name"); !gpu.empty()) parts.push_back(gpu);
  if (!run.lane.empty()) parts.push_back("lane " + run.lane);
  parts.push_back(run.seed ? fmt::format("seeds +{}", *run.seed) : "seeds as declared");
  return visible(fmt::format("{}", fmt::join(parts, " | "))) + "\n";
}

std::string console_row(const CaseRecord& record, const ConsoleStyle& style) {
  const double used = max_bound_used(record);
  std::string text = status_word(record.status, style) + " " + visible(record.id);
  if (record.direction != "both" && !record.direction.empty()) text += " " + record.direction;
  if (!record.tensors.empty()) {
    const TensorRecord* tensor = telling_tensor(record);
    const ViewResult* view = telling_view(*tensor);
    text += "  " + visible(tensor->name) + " ";
    text += view ? fmt::format("{} {} of {}", view->view, number(view->value), number(view->limit))
                 : fmt::format("{} {}", bar(used, style), headroom(used));
    const std::string place = view            ? place_of(*tensor, *view)
                              : tensor->worst ? tensor->worst->letters
                                              : "";
    if (!place.empty()) text += " at " + visible(place);
  } else if (!record.reason.empty()) {
    text += "  " + visible(record.reason);
  }
  return text + "\n";
}

std::string console_footer(const RunFolder& folder, const std::filesystem::path& page,
                           const ConsoleStyle& style) {
  std::string text = reason_rows(folder.cases, style);
  for (const Complaint& complaint : folder.complaints)
    text += status_word("error", style) + " " + visible(complaint.text) + "\n";
  double compared = 0;
  for (const CaseRecord& record : folder.cases)
    compared += static_cast<double>(record.accounting.compared);
  text +=
      fmt::format("{}{}; {} compared; exit {}: {}\n",
                  count_of(static_cast<std::int64_t>(folder.cases.size()), "record"),
                  folder.wall_ms > 0 ? " in " + duration(folder.wall_ms) : "",
                  bytes_of(static_cast<std::int64_t>(compared)), folder.exit, exit_meaning(folder));
  if (!page.empty()) text += fmt::format("page: {}\n", page.string());
  return text + summary_line(counts_of(folder.cases)) + "\n";
}

namespace {

// Failures first, by severity of their view, then errors: expanded as far as there is room, then a
// line each. Errors without tensors that give the same reason are told once.
std::string failures(const std::vector<CaseRecord>& records, std::size_t taken,
                     const ConsoleStyle& style) {
  std::vector<const CaseRecord*> troubled;
  std::map<std::string, std::size_t> same;  // reason of an error -> cases
  for (const CaseRecord& record : records) {
    if (!unexpected(record) || record.status == "unproven") continue;
    const bool alike = record.status == "error" && record.tensors.empty() && !style.verbose;
    if (!alike || same[record.reason]++ == 0) troubled.push_back(&record);
  }
  std::ranges::stable_sort(troubled, {}, [](const CaseRecord* record) {
    return std::pair(record->status != "fail",
                     record->view.empty() ? View::None : parse_view(record->view));
  });
  std::size_t room = kLines > taken + 4 ? kLines - taken : 4;
  std::string text;
  std::size_t shown = 0;
  for (const CaseRecord* record : troubled) {
    std::string whole = console_failure(*record, style);
    if (const auto found = same.find(record->reason);
        record->status == "error" && found != same.end() && found->second > 1)
      whole += fmt::format("    {:<9}{} more for the same reason\n", "also", found->second - 1);
    const std::size_t rest =
        troubled.size() - shown - 1;  // want a line each, or one that counts them
    if (style.verbose || lines_of(whole) + std::min<std::size_t>(rest, 5) < room) {
      text += whole;
      room -= std::min(room, lines_of(whole));
    } else if (room > 1) {
      text += console_row(*record, style);
      --room;
    } else {
      break;
    }
    ++shown;
  }
  if (shown < troubled.size())
    text += fmt::format("{:<12}and {} more that do not pass: -v, or the page\n", "",
                        troubled.size() - shown);
  return text;
}

// Gradients by parameter: of the case that comes nearest to its bounds or is farthest beyond them,
// as far as there is room; of every case with -v.
std::string gradients(const std::vector<CaseRecord>& records, std::size_t taken,
                      const ConsoleStyle& style) {
  const CaseRecord* telling = nullptr;
  std::string text;
  const auto table = [](const CaseRecord& record, std::size_t rows) {
    return fmt::format("gradients of {}\n{}", visible(record.id), console_gradients(record, rows));
  };
  const auto used = [](const CaseRecord& record) {
    const double most = max_bound_used(record);
    return std::isnan(most) ? INFINITY : most;
  };
  for (const CaseRecord& record : records) {
    if (!has_parameters(record)) continue;
    if (style.verbose) text += table(record, record.tensors.size());
    if (!telling || used(record) > used(*telling)) telling = &record;
  }
  constexpr std::size_t kAround = 3, kLeast = 3;  // its two titles and the line that counts
  if (style.verbose || !telling || kLines < taken + kAround + kLeast) return text;
  return table(*telling, std::min(kGradients, kLines - taken - kAround));
}

}  // namespace

namespace {

// Waterfalls: every one with -v; else of the one that tells most, where a layer is over its budget
// or the run is about nothing else.
std::string layers(const std::vector<CaseRecord>& records, const ConsoleStyle& style) {
  const std::vector<Waterfall> all = waterfalls(records);
  std::string text;
  const Waterfall* telling = nullptr;
  for (const Waterfall& w : all) {
    if (style.verbose) text += console_waterfall(w);
    if (w.first() && !telling) telling = &w;
  }
  if (!telling && !all.empty() && records.size() == 2 * all.size())
    telling =
        &*std::ranges::max_element(all, {}, [](const Waterfall& w) { return w.layers.size(); });
  return style.verbose || !telling ? text : console_waterfall(*telling);
}

}  // namespace

std::string console_result(const RunFolder& folder, const std::filesystem::path& dir,
                           const ConsoleStyle& style) {
  const std::string groups = group_rows(folder.cases, style);
  const std::string footer = console_footer(folder, dir / "report.html", style);
  const std::string waterfall = layers(folder.cases, style);
  const std::size_t taken = lines_of(groups) + lines_of(waterfall) + lines_of(footer) + 1;
  const std::string failed = failures(folder.cases, taken, style);
  return groups + failed + waterfall + gradients(folder.cases, taken + lines_of(failed), style) +
         footer;
}

std::string console_verdicts(const RunFolder& folder, const ConsoleStyle& style) {
  const std::string footer = console_footer(folder, {}, style);
  return failures(folder.cases, lines_of(footer) + 1, style) + footer;
}

std::string console_mutants(const std::vector<MutantRecord>& mutants,
                            const MutationSummary& summary, const ConsoleStyle& style) {
  std::string text;
  for (const MutantRecord& mutant : mutants) {
    if (!style.verbose && mutant.status == "killed") continue;
    const std::string by = mutant.status == "killed"
                               ? fmt::format("by {} at {}x its limit: {}", mutant.view,
                                             number(mutant.margin), mutant.case_id)
                               : mutant.reason;
    text += status_word(mutant.status, style) + " " +
            visible(fmt::format("{:<40} {}  ({})", mutant.id, by, mutant.what)) + "\n";
  }
  text += fmt::format(
      "mutants: {} killed, {} survived, {} unsupported; {} false alarms on {} clean variants\n",
      summary.killed, summary.survived, summary.unsupported, summary.false_alarms, summary.clean);
  return text;
}

std::string summary_line(const Counts& counts) {
  std::string text =
      fmt::format("{} pass, {} fail, {} unproven, {} unsupported, {} error, {} waived", counts.pass,
                  counts.fail, counts.unproven, counts.unsupported, counts.error, counts.waived);
  if (counts.expected_fail > 0) text += fmt::format(", {} expected fail", counts.expected_fail);
  return text;
}

}  // namespace parity::reports
