#include "golden/io/log_walk.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

namespace parity::io {
namespace {

constexpr std::int64_t kBuffer = 1024;  // values of one series that are read at once

// One series, step by step.
class Cursor {
 public:
  explicit Cursor(const Series& series) : series_(series), parts_(series.kept()) {}
  bool ended() const { return part_ == parts_.size(); }
  std::int64_t step() const { return parts_[part_].first + parts_[part_].stride * at_; }
  void next() {
    if (++at_ == parts_[part_].count) ++part_, at_ = 0;
  }
  void advance_to(std::int64_t step) {
    while (!ended() && parts_[part_].last() < step) ++part_, at_ = 0;
    if (ended() || this->step() >= step) return;
    const Segment& part = parts_[part_];
    at_ = (step - part.first + part.stride - 1) / part.stride;
  }
  double value() {
    const Segment& part = parts_[part_];
    const std::int64_t at = part.at + at_;
    if (at < from_ || at >= from_ + std::ssize(buffer_)) {
      buffer_.resize(static_cast<std::size_t>(std::min(kBuffer, part.count - at_)));
      series_.read(at, buffer_);
      from_ = at;
    }
    return buffer_[static_cast<std::size_t>(at - from_)];
  }

 private:
  const Series& series_;
  std::vector<Segment> parts_;
  std::size_t part_ = 0;
  std::int64_t at_ = 0, from_ = 0;
  std::vector<double> buffer_ = {};
};

template <class Visit>
void common(std::span<const Series* const> series, Visit&& visit) {
  std::vector<Cursor> cursors;
  for (const Series* s : series) cursors.emplace_back(*s);
  while (!cursors.empty()) {
    std::int64_t step = std::numeric_limits<std::int64_t>::min();
    for (const Cursor& c : cursors) {
      if (c.ended()) return;
      step = std::max(step, c.step());
    }
    bool shared = true;
    for (Cursor& c : cursors) {
      c.advance_to(step);
      if (c.ended()) return;
      shared = shared && c.step() == step;
    }
    if (!shared) continue;
    visit(step, cursors);
    for (Cursor& c : cursors) c.next();
  }
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace

std::int64_t count_common_steps(std::span<const Series* const> series) {
  std::int64_t n = 0;
  common(series, [&](std::int64_t, std::vector<Cursor>&) { ++n; });
  return n;
}

void walk_common_steps(std::span<const Series* const> series,
                       const std::function<void(std::int64_t, std::span<const double>)>& visit) {
  std::vector<double> values(series.size());
  common(series, [&](std::int64_t step, std::vector<Cursor>& cursors) {
    for (std::size_t i = 0; i < cursors.size(); ++i) values[i] = cursors[i].value();
    visit(step, values);
  });
}

StepCensus census(const Series& series) {
  StepCensus census;
  const std::vector<Segment> kept = series.kept(), replaced = series.replaced();
  if (kept.empty()) return census;
  census.first = kept.front().first;
  census.last = kept.back().last();
  std::map<std::int64_t, std::int64_t> strides;  // stride -> how often
  for (std::size_t i = 0; i < kept.size(); ++i) {
    census.steps += kept[i].count;
    if (kept[i].count > 1) strides[kept[i].stride] += kept[i].count - 1;
    if (i > 0) ++strides[kept[i].first - kept[i - 1].last()];
  }
  if (!strides.empty())
    census.interval =
        std::ranges::max_element(strides, {}, [](const auto& s) { return s.second; })->first;
  const auto gap = [&](std::int64_t after, std::int64_t stride, std::int64_t times) {
    const std::int64_t left_out = (stride - 1) / census.interval;
    if (left_out > 0 && census.missing == 0) census.first_missing = after + census.interval;
    census.missing += left_out * times;
  };
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (i > 0) gap(kept[i - 1].last(), kept[i].first - kept[i - 1].last(), 1);
    if (kept[i].count > 1) gap(kept[i].first, kept[i].stride, kept[i].count - 1);
  }
  census.restarts = series.restarts();
  census.first_restart = series.first_restart();
  for (const Segment& old : replaced) {
    census.repeated += old.count;
    auto now =
        std::ranges::partition_point(kept, [&](const Segment& s) { return s.last() < old.first; });
    double before = 0, after = 0;
    for (std::int64_t i = 0; i < old.count && now != kept.end(); ++i) {
      const std::int64_t step = old.first + old.stride * i;
      while (now != kept.end() && now->last() < step) ++now;
      if (now == kept.end() || step < now->first || (step - now->first) % now->stride != 0)
        continue;
      series.read(old.at + i, {&before, 1});
      series.read(now->at + (step - now->first) / now->stride, {&after, 1});
      if (same(before, after)) continue;
      if (census.repeated_unlike++ == 0) census.first_unlike = step;
    }
  }
  return census;
}

}  // namespace parity::io
