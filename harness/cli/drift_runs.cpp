#include "harness/cli/drift_runs.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "golden/io/log_walk.hpp"
#include "golden/io/run_log.hpp"
#include "harness/case.hpp"
#include "harness/drift/columns.hpp"
#include "harness/failure.hpp"
#include "reports/words.hpp"

namespace parity::cli {
namespace {

using drift::Role;

constexpr std::size_t kMostReferences = 10'000;
constexpr const char* kLoss = "loss";
constexpr const char* kNorm = "grad_norm";
constexpr const char* kRate = "lr";

Role role_of(const std::string& column, const DriftQuestion& question) {
  if (column == question.loss) return Role::Loss;
  if (column == question.grad_norm) return Role::GradNorm;
  const Role role = drift::meaning_of(column).role;
  if (role == Role::Loss && !question.loss.empty()) return Role::Other;
  if (role == Role::GradNorm && !question.grad_norm.empty()) return Role::Other;
  return role;
}

bool asked_for(const std::string& column, const DriftQuestion& question) {
  return std::ranges::any_of(question.more,
                             [&](const std::string& glob) { return glob_match(glob, column); });
}

// The series of a log by the name under which they are judged, whatever the log calls them.
using Columns = std::map<std::string, const io::Series*>;

Columns columns_of(const io::RunLog& log, const DriftQuestion& question,
                   std::vector<std::string>& not_judged) {
  Columns columns;
  std::map<std::string, int> ranks;
  for (const io::Series& series : log.series) {
    const drift::Meaning meaning = drift::meaning_of(series.name());
    const Role role = role_of(series.name(), question);
    const std::string key = role == Role::Loss        ? kLoss
                            : role == Role::GradNorm  ? kNorm
                            : role == Role::Rate      ? kRate
                            : role == Role::Parameter ? std::string(kNorm) + "/" + meaning.parameter
                                                      : series.name();
    if (const auto it = columns.find(key); it != columns.end()) {
      const bool better = meaning.rank < ranks[key];
      not_judged.push_back(better ? it->second->name() : series.name());
      if (!better) continue;
    }
    columns[key] = &series;
    ranks[key] = meaning.rank;
  }
  return columns;
}

std::string stem_of(const std::string& path) {
  const std::filesystem::path p(path);
  const std::string name = p.filename().string();
  return name.empty() ? path : name;
}

// What is odd about the steps and values of a log, in sentences.
void remark_on(const io::RunLog& log, const Columns& columns, std::vector<std::string>& remarks) {
  const std::string who = stem_of(log.path);
  for (const std::string& remark : log.remarks) remarks.push_back(who + ": " + remark);
  std::map<std::string, std::vector<std::string>> by_text;  // sentences, with the columns they suit
  for (const auto& [key, series] : columns) {
    const io::StepCensus steps = io::census(*series);
    if (steps.missing > 0)
      by_text[fmt::format("{} missing, the first is {} (it logs every {})",
                          reports::count_of(steps.missing, "step"), steps.first_missing,
                          reports::count_of(steps.interval, "step"))]
          .push_back(key);
    if (steps.restarts > 0)
      by_text[fmt::format("restarted {}, first back to step {}; {} logged again",
                          reports::count_of(steps.restarts, "time"), steps.first_restart,
                          reports::count_of(steps.repeated, "step"))]
          .push_back(key);
    if (steps.repeated_unlike > 0)
      by_text[fmt::format(
                  "{} logged again with another value, the first is {}; the last one counts",
                  reports::count_of(steps.repeated_unlike, "step"), steps.first_unlike)]
          .push_back(key);
    if (series->not_finite() > 0)
      by_text[fmt::format("{} that {} no number, the first at step {}",
                          reports::count_of(series->not_finite(), "value"),
                          series->not_finite() == 1 ? "is" : "are", series->first_not_finite())]
          .push_back(key);
  }
  for (const auto& [text, keys] : by_text)
    remarks.push_back(fmt::format("{}: {}{}", who,
                                  keys.size() == columns.size() ? ""
                                  : keys.size() <= 2 ? fmt::format("{}: ", fmt::join(keys, ", "))
                                                     : fmt::format("{} columns: ", keys.size()),
                                  text));
}

struct Run {
  io::RunLog log;
  Columns columns = {};
};

std::vector<Run> read_runs(const DriftQuestion& question, reports::DriftReport& report) {
  std::vector<std::string> paths = {question.candidate};
  paths.insert(paths.end(), question.references.begin(), question.references.end());
  if (paths.size() > kMostReferences) throw UsageError("more than 10000 runs");
  const io::LogOptions options{.step = question.step, .wanted = [&](std::string_view name) {
                                 const std::string column(name);
                                 const Role role = role_of(column, question);
                                 return (role != Role::Other && role != Role::Step) ||
                                        asked_for(column, question);
                               }};
  std::vector<Run> runs;
  runs.reserve(paths.size());  // Columns point into the logs
  std::set<std::string> not_judged;
  for (const std::string& path : paths) {
    Run& run = runs.emplace_back(Run{.log = io::read_log(path, options)});
    std::vector<std::string> left_out = run.log.left_out;
    run.columns = columns_of(run.log, question, left_out);
    not_judged.insert(left_out.begin(), left_out.end());
    remark_on(run.log, run.columns, report.remarks);
  }
  for (const auto* wanted : {&question.loss, &question.grad_norm})
    if (!wanted->empty() && !runs.front().log.find(*wanted))
      throw UsageError(fmt::format("{}: has no column '{}'", question.candidate, *wanted));
  report.not_judged.assign(not_judged.begin(), not_judged.end());
  return runs;
}

// A log that is given twice, or a run that was repeated bit for bit, tells nothing new: it counts
// once.
void drop_repeated(std::vector<Run>& runs, reports::DriftReport& report) {
  std::map<std::vector<std::pair<std::string, std::uint64_t>>, std::string> seen;
  std::vector<Run> kept;
  kept.push_back(std::move(runs.front()));
  report.references.clear();
  for (std::size_t i = 1; i < runs.size(); ++i) {
    std::vector<std::pair<std::string, std::uint64_t>> bits;
    for (const auto& [key, series] : runs[i].columns)
      if (key != kRate) bits.emplace_back(key, series->digest());
    const std::string path = runs[i].log.path;
    if (const auto [it, fresh] = seen.emplace(bits, path); !fresh) {
      report.remarks.push_back(fmt::format("{}: has the bits of {}: the two count as one reference",
                                           stem_of(path), stem_of(it->second)));
      continue;
    }
    report.references.push_back(path);
    kept.push_back(std::move(runs[i]));
  }
  runs = std::move(kept);
}

// Learning rates are configuration: they are compared, not judged.
void compare_rates(const std::vector<Run>& runs, reports::DriftReport& report) {
  const auto own = runs.front().columns.find(kRate);
  if (own == runs.front().columns.end()) return;
  report.not_judged.push_back(fmt::format("{} (configuration)", own->second->name()));
  std::size_t unlike = 0, compared = 0;
  std::optional<std::int64_t> first;
  double ratio = 1;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const auto other = runs[i].columns.find(kRate);
    if (other == runs[i].columns.end()) continue;
    ++compared;
    std::optional<std::int64_t> differs;
    const std::array series = {own->second, other->second};
    io::walk_common_steps(series, [&](std::int64_t step, std::span<const double> values) {
      if (differs || values[0] == values[1]) return;
      differs = step;
      if (!first || step < *first) first = step, ratio = values[0] / values[1];
    });
    unlike += differs ? 1U : 0U;
  }
  if (unlike > 0)
    report.remarks.push_back(
        fmt::format("{}: the learning rate is {:.6g} times that of {} of {} references, from step "
                    "{}: another configuration",
                    stem_of(report.candidate), ratio, unlike, compared, *first));
}

// The columns that all runs have.
std::vector<std::string> judged_columns(const std::vector<Run>& runs,
                                        reports::DriftReport& report) {
  std::map<std::string, std::size_t> have;
  for (const Run& run : runs)
    for (const auto& [key, series] : run.columns)
      if (key != kRate) ++have[key];
  std::vector<std::string> keys;
  for (const auto& [key, n] : have) {
    if (n == runs.size())
      keys.push_back(key);
    else
      report.not_judged.push_back(fmt::format("{} ({} of {} logs have it)", key, n, runs.size()));
  }
  const auto order = [](const std::string& key) {
    return std::pair(key == kLoss ? 0 : key == kNorm ? 1 : 2, key);
  };
  std::ranges::sort(keys, {}, order);
  if (keys.empty()) throw UsageError("no column is in the candidate and in every reference");
  return keys;
}

drift::Column feed(const std::string& key, const std::vector<Run>& runs, bool keep_all,
                   double alpha, reports::DriftReport& report) {
  std::vector<const io::Series*> series;
  io::Resolution coarsest{.decimals = 400, .digits = 0};
  for (const Run& run : runs) {
    series.push_back(run.columns.at(key));
    const io::Resolution& r = series.back()->resolution();
    if (r.digits == 0) continue;  // stored in binary
    coarsest.decimals = std::min(coarsest.decimals, r.decimals);
    coarsest.digits = coarsest.digits ? std::min(coarsest.digits, r.digits) : r.digits;
  }
  const std::int64_t steps = io::count_common_steps(series);
  std::int64_t most = 0;
  for (const io::Series* s : series) most = std::max(most, io::census(*s).steps);
  if (steps < most && keep_all)
    report.remarks.push_back(
        fmt::format("{}: {} of {} logged steps are in every log and judged", key, steps, most));
  const bool parameter = key.starts_with(std::string(kNorm) + "/");
  drift::Column column({.name = key,
                        .runs = runs.size(),
                        .steps = steps,
                        .parameter = parameter,
                        .detectable = !parameter && alpha * static_cast<double>(runs.size()) >= 1,
                        .keep_all = keep_all});
  std::optional<std::int64_t> first;
  std::int64_t last = 0;
  io::walk_common_steps(series, [&](std::int64_t step, std::span<const double> values) {
    if (!first) first = step;
    last = step;
    column.add(step, values, coarsest.unit(*std::ranges::max_element(values, {}, [](double v) {
      return std::isfinite(v) ? std::abs(v) : 0;
    })));
  });
  if (steps > report.steps) {
    report.steps = steps;
    report.first_step = *first;
    report.last_step = last;
  }
  return column;
}

}  // namespace

std::vector<std::string> files_of(const std::filesystem::path& folder, std::string_view glob) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (glob_match(glob, entry.path().filename().string())) files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

reports::DriftReport judge_logs(const DriftQuestion& question) {
  reports::DriftReport report{.candidate = question.candidate, .references = question.references};
  std::vector<Run> runs = read_runs(question, report);
  drop_repeated(runs, report);
  compare_rates(runs, report);
  std::vector<drift::Column> columns;
  for (const std::string& key : judged_columns(runs, report))
    columns.push_back(feed(key, runs, columns.empty(), question.alpha, report));
  report.judgement = drift::judge(columns, question.alpha);
  for (const drift::Column& column : columns)
    if (column.steps() > 0) report.points.push_back(column.points());
  const drift::Column& about = columns.front();
  report.about = about.options().name;
  const std::span<const double> d = about.differences();
  report.difference_steps = about.difference_steps();
  report.growth = drift::growth_of(d);
  report.shift = drift::block_bootstrap(d.subspan(d.size() / 2), question.alpha);
  report.trend = drift::block_bootstrap_trend(d.subspan(d.size() / 2), question.alpha);
  return report;
}

}  // namespace parity::cli
