#include "harness/cli/ledger.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

#include "harness/cli/bound_text.hpp"
#include "harness/cli/catalogue.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "harness/walk.hpp"

namespace parity::cli {
namespace {

constexpr std::string_view kHead =
    "# id@kernel\ttensor\tkind\ttimes |x*|\ttimes m\ttimes sigma\tcreep\twhy it was loosened\n";
constexpr double kSame = 1e-9;  // relative: another compiler's last bits are no loosening

LedgerLine line_of(const Registry& all, const Case& problem, const KernelDef& kernel,
                   const TensorSpec& spec) {
  const Bound bound = all.bound_of(problem, kernel.contract, spec);
  LedgerLine line{.id = print_id(problem, kernel.name, {}),
                  .tensor = spec.name,
                  .kind = std::string(name(bound.kind))};
  for (const BoundTermText& term : terms_of(bound, spec.dtype)) {
    if (term.of == "|x*|") line.value += term.factor;
    if (term.of == "m") line.companion += term.factor;
    if (term.of == "sigma") line.spread += term.factor;
  }
  return line;
}

bool takes(const KernelDef& kernel, const Case& problem) {
  const std::vector<Dtype>& dtypes = kernel.contract.dtypes;
  return kernel.op == problem.op &&
         (dtypes.empty() || std::ranges::count(dtypes, problem.dtype) > 0);
}

std::string key_of(const Case& problem, const KernelDef& kernel, const std::string& tensor) {
  return fmt::format("{} {} {} {}", kernel.name, name(problem.dtype), name(problem.check), tensor);
}

int rank(const std::string& kind) { return kind == "exact" ? 0 : kind == "proved" ? 1 : 2; }

// How much wider: above 1 is a loosening, below a tightening; +inf from nothing to something.
double widening(const LedgerLine& before, const LedgerLine& now) {
  if (rank(now.kind) > rank(before.kind)) return INFINITY;
  double factor = 0;
  for (const auto member : {&LedgerLine::value, &LedgerLine::companion, &LedgerLine::spread}) {
    const double was = before.*member, is = now.*member;
    if (was == is) continue;
    factor = std::max(factor, is / was);
  }
  return factor == 0 ? 1 : factor;
}

double number_of(std::string_view text, int at) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw UsageError(fmt::format("ledger of bounds, line {}: '{}' is no number", at, text));
  return value;
}

// The bound of this line as the registry has it now; null where its case or kernel is gone.
std::optional<std::pair<LedgerLine, std::string>> again(const Registry& all,
                                                        const LedgerLine& line) {
  try {
    const ParsedId parsed = parse_id(line.id);
    const Case problem = resolve(all, parsed);
    const KernelDef* kernel = all.kernel(parsed.kernel);
    const OpDef* op = all.op(problem.op);
    if (!kernel || !op || !takes(*kernel, problem)) return std::nullopt;
    for (const TensorSpec& spec : op->outputs(problem))
      if (spec.name == line.tensor)
        return std::pair(line_of(all, problem, *kernel, spec), key_of(problem, *kernel, spec.name));
  } catch (const UsageError&) {  // a case, fill or option that was dropped
  }
  return std::nullopt;
}

}  // namespace

std::vector<LedgerLine> ledger_of(const Registry& all) {
  std::map<std::string, LedgerLine> lines;
  for (const Case& problem : expand(all, Lane::Long)) {
    const OpDef* op = all.op(problem.op);
    const bool bounded = (problem.set && problem.set->bound) ||
                         std::ranges::count(all.bounds, problem.op, &BoundDef::op) > 0;
    if (!op || !op->outputs || !bounded) continue;
    for (const TensorSpec& spec : op->outputs(problem))
      for (const KernelDef& kernel : all.kernels)
        if (takes(kernel, problem))
          if (const std::string key = key_of(problem, kernel, spec.name); !lines.contains(key))
            lines.emplace(key, line_of(all, problem, kernel, spec));
  }
  std::vector<LedgerLine> list;
  for (auto& [key, line] : lines) list.push_back(std::move(line));
  return list;
}

std::vector<LedgerLine> parse_ledger(const std::string& text) {
  std::vector<LedgerLine> lines;
  int at = 0;
  for (const std::string& row : split(text, '\n')) {
    ++at;
    if (row.empty() || row.front() == '#') continue;
    const std::vector<std::string> cells = split(row, '\t');
    if (cells.size() != 8)
      throw UsageError(
          fmt::format("ledger of bounds, line {}: {} columns, not 8", at, cells.size()));
    lines.push_back({.id = cells[0],
                     .tensor = cells[1],
                     .kind = cells[2],
                     .value = number_of(cells[3], at),
                     .companion = number_of(cells[4], at),
                     .spread = number_of(cells[5], at),
                     .creep = number_of(cells[6], at),
                     .explained = cells[7]});
  }
  return lines;
}

std::string print_ledger(const std::vector<LedgerLine>& lines) {
  std::string text(kHead);
  for (const LedgerLine& line : lines)
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", line.id, line.tensor, line.kind,
                        line.value, line.companion, line.spread, line.creep, line.explained);
  return text;
}

LedgerReport compare_ledger(const Registry& all, const std::vector<LedgerLine>& old,
                            const std::string& explanation, bool whole) {
  LedgerReport report;
  std::set<std::string> known;
  for (const LedgerLine& before : old) {
    const auto found = again(all, before);
    if (!found) {  // what is no longer declared bounds nothing
      if (!whole && !all.kernel(before.id.substr(before.id.rfind('@') + 1)))
        report.lines.push_back(before);
      continue;
    }
    LedgerLine now = found->first;
    known.insert(found->second);
    now.creep = before.creep;
    now.explained = before.explained;
    const double factor = widening(before, now);
    if (factor > 1 + kSame) {
      if (explanation.empty()) {
        report.loosened.push_back(
            {"loosened",
             fmt::format("the bound of {} in {} is {:.4g} times as wide as in the ledger: explain "
                         "it (parity check --write-ledger --explained 'why')",
                         before.tensor, before.id, factor)});
        now = before;
      } else {
        now.creep *= factor;
        now.explained +=
            fmt::format("{}{:.4g}x: {}", now.explained.empty() ? "" : "; ", factor, explanation);
      }
    }
    report.lines.push_back(std::move(now));
  }
  for (LedgerLine& line : ledger_of(all)) {
    const auto found = again(all, line);
    if (found && known.contains(found->second)) continue;
    ++report.unknown;
    report.lines.push_back(std::move(line));
  }
  std::ranges::sort(report.lines, {},
                    [](const LedgerLine& line) { return std::pair(line.id, line.tensor); });
  return report;
}

std::filesystem::path ledger_file() {
  const std::filesystem::path golden = golden_folder();
  return golden.empty() ? golden
                        : (golden.has_parent_path() ? golden.parent_path() / "cases/BOUNDS.tsv"
                                                    : std::filesystem::path("cases/BOUNDS.tsv"));
}

}  // namespace parity::cli
