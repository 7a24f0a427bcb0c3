#include "harness/drift/judge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace parity::drift {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The statistics are logarithms of sizes: references that agree better than this do not make a
// smaller difference count.
constexpr double kLeastSpread = 0.1;
constexpr double kPower = 0.8;

double studentised(double value, const Spread& others) {
  if (value == kInfinity) return kInfinity;
  if (!std::isfinite(others.centre)) return -kInfinity;
  return (value - others.centre) /
         (std::isfinite(others.scale) ? std::max(others.scale, kLeastSpread) : kInfinity);
}

// z of every run in one column, by statistic; and of the planted shifts of its references.
struct Scores {
  std::vector<std::array<double, kStatistics>> z = {};
  std::vector<double> largest = {};  // over the statistics, by run
  // of shifted members: by onset, member and shift
  std::array<std::vector<std::vector<double>>, 2> planted = {};
};

Scores scores_of(const Column& column) {
  const std::size_t runs = column.options().runs;
  Scores scores{.z = std::vector<std::array<double, kStatistics>>(runs),
                .largest = std::vector<double>(runs, -kInfinity)};
  if (column.options().detectable && column.positive())
    scores.planted.fill(std::vector(planted_members(runs),
                                    std::vector<double>(planted_shifts().size(), -kInfinity)));
  LeaveOneOut leave_one_out;
  std::vector<Statistics> all;
  for (std::size_t run = 0; run < runs; ++run) all.push_back(column.statistics(run));
  std::vector<double> values(runs);
  for (std::size_t s = 0; s < kStatistics; ++s) {
    for (std::size_t run = 0; run < runs; ++run) values[run] = all[run][s];
    const std::span<const Spread> others = leave_one_out.of(values);
    for (std::size_t run = 0; run < runs; ++run) {
      scores.z[run][s] = studentised(values[run], others[run]);
      scores.largest[run] = std::max(scores.largest[run], scores.z[run][s]);
    }
    for (const Onset onset : {Onset::Start, Onset::Half}) {
      auto& planted = scores.planted[static_cast<std::size_t>(onset)];
      for (std::size_t m = 0; m < planted.size(); ++m)
        for (std::size_t shift = 0; shift < planted[m].size(); ++shift)
          planted[m][shift] = std::max(
              planted[m][shift], studentised(column.planted(m, onset, shift)[s], others[m + 1]));
    }
  }
  return scores;
}

// Of the references, how many are at least as extreme as the candidate.
template <class Value>
std::int64_t at_least(std::size_t runs, double candidate, Value&& value) {
  std::int64_t n = 0;
  for (std::size_t run = 1; run < runs; ++run) n += value(run) >= candidate;
  return n;
}

// The factor on the envelope that a candidate must exceed to be more extreme in that alone.
double common_band(std::span<const Column* const> columns, std::size_t runs, std::size_t passes) {
  std::vector<double> ratios;
  for (std::size_t run = 1; run < runs; ++run) {
    double most = 0;
    for (const Column* column : columns)
      most = std::max(most, column->statistics(run)[static_cast<std::size_t>(Statistic::Step)]);
    ratios.push_back(most);
  }
  std::ranges::sort(ratios, std::greater());
  return std::exp(ratios[std::min(passes, ratios.size() - 1)]);
}

void find_excursion(const Column& column, double band, ColumnVerdict& verdict) {
  for (const Excursion& e : column.excursions())
    if (e.ratio > band) {
      verdict.left_band = e.step;
      verdict.left_sigma = e.residual;
      return;
    }
}

// The shift at which the share of members found passes kPower, between two planted ones.
std::optional<double> detectable(const std::vector<std::vector<double>>& planted,
                                 std::span<const double> others, std::span<const double> extremes,
                                 std::size_t passes) {
  const std::span<const double> shifts = planted_shifts();
  double before = 0;
  for (std::size_t s = 0; s < shifts.size(); ++s) {
    double found = 0;
    for (std::size_t m = 0; m < planted.size(); ++m) {
      const double z = std::max(planted[m][s], others[m + 1]);
      std::size_t extreme = 0;
      for (std::size_t run = 1; run < extremes.size(); ++run)
        extreme += run != m + 1 && extremes[run] >= z;
      found += extreme <= passes ? 1 : 0;
    }
    found /= static_cast<double>(planted.size());
    if (found >= kPower) {
      if (s == 0) return shifts[0];
      const double share = (kPower - before) / (found - before);
      return shifts[s - 1] * std::pow(shifts[s] / shifts[s - 1], share);
    }
    before = found;
  }
  return {};
}

void compare_bits(std::span<const Column* const> columns, std::size_t runs, Judgement& judgement) {
  for (std::size_t run = 1; run < runs; ++run) {
    std::optional<std::int64_t> first;
    for (const Column* column : columns)
      if (const auto step = column->first_difference(run); step && (!first || *step < *first))
        first = step;
    if (run == 1 || !first ||
        (judgement.first_difference && *first > *judgement.first_difference)) {
      judgement.first_difference = first;
      judgement.equal_longest = run - 1;
    }
    if (!first) break;
  }
  judgement.identical = !judgement.first_difference;
}

void decide(Judgement& judgement) {
  const double least = 1 / static_cast<double>(judgement.references + 1);
  const auto bad = std::ranges::find_if(
      judgement.columns, [](const ColumnVerdict& c) { return c.not_finite.has_value(); });
  if (bad != judgement.columns.end()) {
    judgement.verdict = Verdict::Fail;
    judgement.reason = fmt::format("{} is no number at step {}", bad->name, *bad->not_finite);
  } else if (judgement.identical) {
    judgement.verdict = Verdict::Pass;
    judgement.reason = "every judged value equals that of a reference, bit for bit";
  } else if (least > judgement.alpha) {
    judgement.verdict = Verdict::Unproven;
    judgement.reason = fmt::format(
        "with {} reference{} p cannot be below {:.3g}: alpha {:.3g} needs {} of them",
        judgement.references, judgement.references == 1 ? "" : "s", least, judgement.alpha,
        static_cast<std::int64_t>(std::ceil(1 / judgement.alpha - 1e-9)) - 1);
  } else {
    const ColumnVerdict& telling = judgement.columns[judgement.telling];
    judgement.verdict = judgement.p <= judgement.alpha ? Verdict::Fail : Verdict::Pass;
    judgement.reason =
        judgement.as_extreme == 0
            ? fmt::format("more extreme than all {} references, most by the {} statistic of {}",
                          judgement.references, name(telling.telling), telling.name)
            : fmt::format("{} of {} references are at least as extreme", judgement.as_extreme,
                          judgement.references);
  }
}

}  // namespace

std::string_view name(Verdict verdict) {
  return verdict == Verdict::Pass ? "pass" : verdict == Verdict::Fail ? "fail" : "unproven";
}

Judgement judge(std::span<const Column> given, double alpha) {
  Judgement judgement{.alpha = alpha};
  std::vector<const Column*> columns;
  for (const Column& column : given)
    if (column.steps() > 0) columns.push_back(&column);
  const std::size_t runs = columns.empty() ? 0 : columns.front()->options().runs;
  if (runs < 2) {
    judgement.reason = "no column has a step that the candidate and every reference share";
    return judgement;
  }
  judgement.references = static_cast<std::int64_t>(runs) - 1;
  const auto all = static_cast<double>(runs);
  // How many references may be as extreme as a candidate that fails: 1 + passes <= alpha (K + 1).
  const auto places = static_cast<std::size_t>(std::floor(alpha * all + 1e-9));
  judgement.attainable = static_cast<double>(places) / all;
  const std::size_t passes = places == 0 ? 0 : places - 1;

  std::vector<Scores> scores;
  std::vector<double> extremes(runs, -kInfinity);
  for (const Column* column : columns) {
    scores.push_back(scores_of(*column));
    for (std::size_t run = 0; run < runs; ++run)
      extremes[run] = std::max(extremes[run], scores.back().largest[run]);
  }
  judgement.z = extremes[0];
  judgement.as_extreme = at_least(runs, extremes[0], [&](std::size_t r) { return extremes[r]; });
  judgement.p = static_cast<double>(1 + judgement.as_extreme) / all;
  std::vector<double> ranked(extremes.begin() + 1, extremes.end());
  std::ranges::sort(ranked, std::greater());
  judgement.critical = ranked[std::min(passes, ranked.size() - 1)];
  judgement.band = common_band(columns, runs, passes);

  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Column& column = *columns[c];
    const Scores& own = scores[c];
    const auto p_of = [&](std::size_t s) {
      return (1 + static_cast<double>(
                      at_least(runs, own.z[0][s], [&](std::size_t r) { return own.z[r][s]; }))) /
             all;
    };
    ColumnVerdict verdict{.name = column.options().name,
                          .parameter = column.options().parameter,
                          .steps = column.steps(),
                          .z = own.largest[0],
                          .slope_p = p_of(static_cast<std::size_t>(Statistic::Slope)),
                          .signs_p = p_of(static_cast<std::size_t>(Statistic::Signs)),
                          .max_sigma = column.largest(),
                          .max_step = column.largest_step(),
                          .not_finite = column.not_finite(0)};
    verdict.p = (1 + static_cast<double>(at_least(runs, own.largest[0],
                                                  [&](std::size_t r) { return own.largest[r]; }))) /
                all;
    verdict.p_adjusted =
        (1 + static_cast<double>(
                 at_least(runs, own.largest[0], [&](std::size_t r) { return extremes[r]; }))) /
        all;
    verdict.telling = static_cast<Statistic>(std::ranges::max_element(own.z[0]) - own.z[0].begin());
    find_excursion(column, judgement.band, verdict);
    if (places > 0 && !own.planted.front().empty()) {
      std::vector<double> others(runs, -kInfinity);  // extremes of the other columns
      for (std::size_t o = 0; o < columns.size(); ++o)
        for (std::size_t run = 0; o != c && run < runs; ++run)
          others[run] = std::max(others[run], scores[o].largest[run]);
      verdict.detectable_from_start = detectable(own.planted[0], others, extremes, passes);
      verdict.detectable = detectable(own.planted[1], others, extremes, passes);
    }
    judgement.columns.push_back(std::move(verdict));
    if (own.largest[0] > judgement.columns[judgement.telling].z) judgement.telling = c;
  }
  // The first to leave; of those that left at one step, the one that is furthest out.
  for (std::size_t c = 0; c < judgement.columns.size(); ++c) {
    const ColumnVerdict& now = judgement.columns[c];
    if (!now.parameter || !now.left_band) continue;
    const auto& first = judgement.first_parameter;
    if (!first || *now.left_band < *judgement.columns[*first].left_band ||
        (*now.left_band == *judgement.columns[*first].left_band &&
         std::abs(now.left_sigma) > std::abs(judgement.columns[*first].left_sigma)))
      judgement.first_parameter = c;
  }
  compare_bits(columns, runs, judgement);
  decide(judgement);
  return judgement;
}

}  // namespace parity::drift
