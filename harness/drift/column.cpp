#include "harness/drift/column.hpp"

#include <algorithm>
#include <cmath>

namespace parity::drift {
namespace {

constexpr std::size_t kMostPoints = 2048;
constexpr std::size_t kMembers = 8;

// 1e-5 to 1, four a decade.
std::vector<double> shifts() {
  std::vector<double> list;
  for (int i = -20; i <= 0; ++i) list.push_back(std::pow(10.0, i / 4.0));
  return list;
}

// The value at share q of an ascending list, between neighbours linearly.
double quantile(std::span<const double> ascending, double q) {
  const double at = q * static_cast<double>(ascending.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, ascending.size() - 1);
  return ascending[low] + (at - static_cast<double>(low)) * (ascending[high] - ascending[low]);
}

std::size_t planted_index(std::size_t member, Onset onset, std::size_t shift) {
  return (2 * member + static_cast<std::size_t>(onset)) * planted_shifts().size() + shift;
}

}  // namespace

std::span<const double> planted_shifts() {
  static const std::vector<double> list = shifts();
  return list;
}

std::size_t planted_members(std::size_t runs) { return std::min(kMembers, runs - 1); }

Column::Column(ColumnOptions options)
    : options_(std::move(options)),
      states_(options_.runs),
      planted_(options_.detectable ? 2 * planted_members(options_.runs) * planted_shifts().size()
                                   : 0),
      not_finite_(options_.runs),
      first_difference_(options_.runs) {}

void Column::add(std::int64_t step, std::span<const double> values, double unit) {
  raw_.clear();
  values_.clear();
  runs_.clear();
  bool positive = true;
  for (std::size_t run = 0; run < values.size(); ++run) {
    const double x = values[run];
    if (!(x == values[0]) && !(std::isnan(x) && std::isnan(values[0])) && !first_difference_[run])
      first_difference_[run] = step;
    if (run > 1 && !first_spread_ && !(x == values[1])) first_spread_ = step;
    if (!std::isfinite(x)) {
      if (!not_finite_[run]) not_finite_[run] = step;
      continue;
    }
    raw_.push_back(x);
    runs_.push_back(run);
    positive = positive && x > 0;
  }
  for (const double x : raw_) values_.push_back(positive ? std::log(x) : x);
  if (positive && !raw_.empty()) unit /= *std::ranges::min_element(raw_);
  positive_ = positive_ && positive;
  if (values_.size() > 1) add_finite(step, unit);
  ++at_;
}

// One reference alone has no spread: then residuals are plain differences.
double Column::sigma(const Spread& others, double unit) const {
  return options_.runs == 2 ? 1 : std::max(others.scale, unit);
}

void Column::add_finite(std::int64_t step, double unit) {
  const std::span<const Spread> spreads = leave_one_out_.of(values_);
  // The largest residual of any run up to now, and of any but that one.
  residuals_.resize(values_.size());
  double first = 0, second = 0;
  std::size_t owner = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const double distance = values_[i] - spreads[i].centre;
    residuals_[i] = distance == 0 ? 0 : distance / sigma(spreads[i], unit);
    const double most = std::max(states_[runs_[i]].largest(), std::abs(residuals_[i]));
    if (most > first) {
      second = first;
      first = most;
      owner = i;
    } else {
      second = std::max(second, most);
    }
  }
  const std::size_t members = planted_.empty() ? 0 : planted_members(options_.runs);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::size_t run = runs_[i];
    const double envelope = i == owner ? second : first, before = states_[run].largest();
    const double ratio = states_[run].add(residuals_[i], envelope, at_, options_.steps);
    if (run == 0) {
      if (std::abs(residuals_[i]) > before || at_ == 0) largest_step_ = step;
      if (ratio > (excursions_.empty() ? 1 : excursions_.back().ratio))
        excursions_.push_back({step, ratio, residuals_[i]});
    } else if (run <= members) {
      const std::span<const double> shifts = planted_shifts();
      const double scale = sigma(spreads[i], unit);
      for (const Onset onset : {Onset::Start, Onset::Half})
        for (std::size_t s = 0; s < shifts.size(); ++s) {
          const bool on = onset == Onset::Start || at_ >= options_.steps / 2;
          planted_[planted_index(run - 1, onset, s)].add(
              residuals_[i] + (on ? std::log1p(shifts[s]) / scale : 0), envelope, at_,
              options_.steps);
        }
    }
  }
  if (runs_.front() != 0) return;  // the candidate's value is no number
  if (options_.keep_all) {
    differences_.push_back(values_[0] - spreads[0].centre);
    difference_steps_.push_back(step);
  }
  values_.clear();  // from here on: the references, ascending, as they were printed
  for (const std::size_t i : leave_one_out_.order())
    if (i != 0) values_.push_back(raw_[i]);
  chart({.step = step,
         .candidate = raw_[0],
         .median = quantile(values_, 0.5),
         .low95 = quantile(values_, 0.025),
         .low50 = quantile(values_, 0.25),
         .high50 = quantile(values_, 0.75),
         .high95 = quantile(values_, 0.975),
         .residual = residuals_[0]});
}

void Column::chart(const Point& point) {
  const auto telling = [](const Point& a, const Point& b) {
    return std::abs(b.residual) > std::abs(a.residual) ? b : a;
  };
  if (at_ % per_point_ != 0 && !points_.empty()) {
    points_.back() = telling(points_.back(), point);
    return;
  }
  if (points_.size() == kMostPoints) {
    for (std::size_t i = 0; i < kMostPoints / 2; ++i)
      points_[i] = telling(points_[2 * i], points_[2 * i + 1]);
    points_.resize(kMostPoints / 2);
    per_point_ *= 2;
  }
  points_.push_back(point);
}

Statistics Column::statistics(std::size_t run) const {
  Statistics s = states_[run].statistics(options_.steps);
  if (not_finite_[run]) s.fill(std::numeric_limits<double>::infinity());
  return s;
}

Statistics Column::planted(std::size_t member, Onset onset, std::size_t shift) const {
  return planted_[planted_index(member, onset, shift)].statistics(options_.steps);
}

std::optional<std::int64_t> Column::not_finite(std::size_t run) const { return not_finite_[run]; }

std::optional<std::int64_t> Column::first_difference(std::size_t reference) const {
  return first_difference_[reference];
}

}  // namespace parity::drift
