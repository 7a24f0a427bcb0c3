#include "reports/runs.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <set>

#include "harness/failure.hpp"
#include "harness/walk.hpp"
#include "reports/words.hpp"

namespace parity::reports {
namespace {

constexpr double kStep = 1.5;   // of an error: what repeats on another machine stays below it
constexpr double kUnits = 0.5;  // and so many noise floors

int severity(std::string_view status) {
  if (status == "error") return 5;
  if (status == "fail") return 4;
  if (status == "unproven") return 3;
  if (status == "waived") return 2;
  return status == "unsupported" ? 1 : 0;
}

// Of the error of one tensor: by which factor it changed, and by how many noise floors.
std::pair<double, double> change(double before, double after, double floor) {
  const double factor = before == after ? 1 : after / before;
  const double units = before == after ? 0 : (after - before) / floor;
  return {factor, units};
}

bool is_step(double factor, double units) {
  if (std::isnan(factor) || std::isnan(units)) return true;
  return (factor > kStep || factor < 1 / kStep) && std::abs(units) > kUnits;
}

double floor_of(const TensorRecord& t) { return t.floor > 0 ? t.floor : t.rel_l2_base; }

std::string rose(double factor, double units, double used) {
  return fmt::format("error {} {:.3g}x ({:+.2g} noise floors), {} of the bound",
                     factor > 1 ? "rose" : "fell", factor > 1 ? factor : 1 / factor, units,
                     number(used));
}

std::map<std::string, const CaseRecord*> by_key(const RunFolder& folder) {
  std::map<std::string, const CaseRecord*> map;
  for (const CaseRecord& record : folder.cases) map[record_key(record)] = &record;
  return map;
}

void compare_tensors(RunDiff& diff, const CaseRecord& a, const CaseRecord& b) {
  for (const TensorRecord& before : a.tensors) {
    const auto after = std::ranges::find(b.tensors, before.name, &TensorRecord::name);
    if (after == b.tensors.end()) {
      diff.moves.push_back({Move::Kind::Missing, a.id, before.name, "is not compared any more"});
      continue;
    }
    const auto [factor, units] = change(before.rel_l2, after->rel_l2, floor_of(before));
    if (is_step(factor, units))
      diff.moves.push_back({Move::Kind::Step, a.id, before.name,
                            rose(factor, units, after->bound_used), factor, units});
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

RunFolder merged(const std::vector<RunFolder>& folders) {
  if (folders.empty()) throw UsageError("no run to put together");
  RunFolder all = folders.front();
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < all.cases.size(); ++i) place[record_key(all.cases[i])] = i;
  for (std::size_t f = 1; f < folders.size(); ++f) {
    const RunFolder& more = folders[f];
    if (more.run.commit != all.run.commit || more.run.seed != all.run.seed)
      throw UsageError(
          fmt::format("these are no parts of one run: commit {} and {}, seeds {} and {}",
                      short_commit(all.run.commit), short_commit(more.run.commit),
                      all.run.seed.value_or(0), more.run.seed.value_or(0)));
    for (const CaseRecord& record : more.cases) {
      const auto [at, fresh] = place.emplace(record_key(record), all.cases.size());
      if (fresh)
        all.cases.push_back(record);
      else if (severity(record.status) > severity(all.cases[at->second].status))
        all.cases[at->second] = record;
    }
    all.mutants.insert(all.mutants.end(), more.mutants.begin(), more.mutants.end());
    all.complaints.insert(all.complaints.end(), more.complaints.begin(), more.complaints.end());
    if (more.mutation) {
      MutationSummary sum = all.mutation.value_or(MutationSummary{});
      sum.killed += more.mutation->killed;
      sum.survived += more.mutation->survived;
      sum.unsupported += more.mutation->unsupported;
      sum.false_alarms += more.mutation->false_alarms;
      sum.clean += more.mutation->clean;
      all.mutation = sum;
    }
    all.wall_ms += more.wall_ms;
  }
  std::ranges::sort(all.cases, {}, [](const CaseRecord& r) { return record_key(r); });
  Tally tally;
  for (const CaseRecord& record : all.cases) tally.add(record);
  all.exit = tally.exit();
  for (const Complaint& complaint : all.complaints) all.exit = worse_exit(all.exit, complaint.exit);
  if (all.mutation && (all.mutation->survived > 0 || all.mutation->false_alarms > 0))
    all.exit = worse_exit(all.exit, 4);
  return all;
}

int RunDiff::exit() const {
  if (common == 0) return 4;
  return std::ranges::any_of(moves,
                             [](const Move& move) {
                               return move.kind == Move::Kind::Worse ||
                                      move.kind == Move::Kind::Missing;
                             })
             ? 1
             : 0;
}

RunDiff compare_runs(const RunFolder& a, const RunFolder& b) {
  RunDiff diff;
  const auto before = by_key(a), after = by_key(b);
  for (const auto& [key, record] : before) {
    const auto now = after.find(key);
    if (now == after.end()) {
      diff.moves.push_back({Move::Kind::Missing, record->id, "", "is not in B"});
      continue;
    }
    ++diff.common;
    const CaseRecord& other = *now->second;
    if (record->status != other.status)
      diff.moves.push_back({severity(other.status) > severity(record->status) ? Move::Kind::Worse
                                                                              : Move::Kind::Better,
                            record->id, "",
                            fmt::format("{} -> {}{}", record->status, other.status,
                                        other.reason.empty() ? "" : ": " + other.reason)});
    compare_tensors(diff, *record, other);
  }
  for (const auto& [key, record] : after)
    if (!before.contains(key))
      diff.moves.push_back({Move::Kind::New, record->id, "", "is new: " + record->status});
  std::ranges::stable_sort(diff.moves, [](const Move& x, const Move& y) {
    if (x.kind != y.kind) return x.kind < y.kind;
    return std::abs(x.noise_units) > std::abs(y.noise_units);
  });
  return diff;
}

std::vector<Series> history(const std::vector<RunFolder>& runs) {
  std::map<std::pair<std::string, std::string>, Series> all;
  std::map<std::pair<std::string, std::string>, double> floors;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const CaseRecord& record : runs[r].cases)
      for (const TensorRecord& tensor : record.tensors) {
        const std::pair key(record_key(record), tensor.name);
        Series& series = all[key];
        if (series.rel_l2.empty()) {
          const std::vector<double> open(runs.size(), std::numeric_limits<double>::quiet_NaN());
          series = {.id = record.id, .tensor = tensor.name, .rel_l2 = open, .bound_used = open};
        }
        series.rel_l2[r] = tensor.rel_l2;
        series.bound_used[r] = tensor.bound_used;
        floors[key] = floor_of(tensor);
      }
  std::vector<Series> list;
  for (auto& [key, series] : all) {
    std::vector<double> earlier;
    for (std::size_t r = 0; r + 1 < runs.size(); ++r)
      if (!std::isnan(series.rel_l2[r])) earlier.push_back(series.rel_l2[r]);
    if (!earlier.empty() && !std::isnan(series.rel_l2.back())) {
      std::tie(series.factor, series.noise_units) =
          change(median(earlier), series.rel_l2.back(), floors[key]);
      series.step = is_step(series.factor, series.noise_units);
    }
    list.push_back(std::move(series));
  }
  std::ranges::stable_sort(list, [](const Series& a, const Series& b) {
    if (a.step != b.step) return a.step;
    return std::abs(a.noise_units) > std::abs(b.noise_units);
  });
  return list;
}

std::vector<Widening> parse_widenings(const std::string& text, const std::string& file) {
  std::vector<Widening> list;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    line.erase(std::min(line.find('#'), line.size()));
    std::vector<std::string> words;
    for (std::size_t i = 0; i < line.size();) {
      const std::size_t first = line.find_first_not_of(" \t\r", i);
      if (first == std::string::npos) break;
      const std::size_t last = std::min(line.find_first_of(" \t\r", first), line.size());
      words.push_back(line.substr(first, last - first));
      i = last;
    }
    if (words.empty()) continue;
    char* rest = nullptr;
    const double factor = words.size() == 3 ? std::strtod(words[2].c_str(), &rest) : 0;
    if (words.size() != 3 || *rest || !(factor > 0) || !std::isfinite(factor))
      throw UsageError(fmt::format("{}:{}: a line is ID_GLOB TENSOR_GLOB FACTOR, as 'kda/* o 0.5'",
                                   file, number + 1));
    list.push_back({words[0], words[1], factor});
  }
  return list;
}

Rejudged rejudge(RunFolder& folder, const std::vector<Widening>& widenings) {
  Rejudged result;
  for (CaseRecord& record : folder.cases) {
    if (record.status != "pass" && record.status != "fail") continue;
    bool asked = false, done = false;
    for (TensorRecord& tensor : record.tensors)
      for (const Widening& w : widenings) {
        if (!glob_match(w.id, record.id) || !glob_match(w.tensor, tensor.name)) continue;
        asked = true;
        const auto view = std::ranges::find(tensor.views, name(View::Bound), &ViewResult::view);
        if (view == tensor.views.end()) continue;
        done = true;
        view->value /= w.factor;
        tensor.bound_used /= w.factor;
        tensor.base_bound_used /= w.factor;
        tensor.bound_that_would_pass /= w.factor;
        for (auto& [quantile, used] : tensor.quantiles) used /= w.factor;
      }
    if (!asked) continue;
    ++result.asked;
    if (!done) {
      result.cannot.push_back(record.id + ": it is judged by equality, without a bound");
      continue;
    }
    const std::string before = record.status;
    judge(record);
    result.changed += record.status != before;
  }
  Tally tally;
  for (const CaseRecord& record : folder.cases) tally.add(record);
  folder.exit = tally.exit();
  for (const Complaint& complaint : folder.complaints)
    folder.exit = worse_exit(folder.exit, complaint.exit);
  return result;
}

std::vector<Proposal> propose(const std::vector<RunFolder>& runs) {
  constexpr std::int64_t kEnough = 20;
  constexpr double kRoom = 4, kKept = 2;  // a proposal leaves twice what was seen
  std::map<std::pair<std::string, std::string>, Proposal> groups;
  for (const RunFolder& run : runs)
    for (const CaseRecord& record : run.cases) {
      if (record.status != "pass") continue;
      for (const TensorRecord& tensor : record.tensors) {
        if (std::ranges::find(tensor.views, name(View::Bound), &ViewResult::view) ==
            tensor.views.end())
          continue;
        const std::string id = fmt::format("{}/*/{}/*@{}*", record.op, record.dtype, record.kernel);
        Proposal& p = groups[{id, tensor.name}];
        p.widening.id = id;
        p.widening.tensor = tensor.name;
        ++p.records;
        if (!(tensor.bound_used <= p.most_used)) p.most_used = tensor.bound_used;
      }
    }
  std::vector<Proposal> list;
  for (auto& [key, p] : groups) {
    if (p.records < kEnough || !(p.most_used * kRoom < 1) || p.most_used == 0) continue;
    p.widening.factor = p.most_used * kKept;
    list.push_back(p);
  }
  return list;
}

}  // namespace parity::reports
