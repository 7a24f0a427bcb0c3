#include "harness/drift/leave_one_out.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace parity::drift {
namespace {

constexpr double kNormal = 1.4826022185056018;  // 1 / Phi^-1(3/4)

}  // namespace

// Two runs away from the centre, merged.
void LeaveOneOut::distances(double centre) {
  distances_.clear();
  std::size_t right =
      static_cast<std::size_t>(std::ranges::lower_bound(sorted_, centre) - sorted_.begin());
  std::size_t left = right;
  const auto distance = [&](std::size_t i) {
    return sorted_[i] == centre ? 0 : std::abs(sorted_[i] - centre);  // infinities: no inf - inf
  };
  while (left > 0 || right < sorted_.size()) {
    const bool take_left =
        right == sorted_.size() || (left > 0 && distance(left - 1) <= distance(right));
    distances_.push_back(distance(take_left ? --left : right++));
  }
}

// The median of the distances without one that equals `distance`.
double LeaveOneOut::without(double distance) const {
  const std::size_t others = distances_.size() - 1;
  const auto at = [&](std::size_t i) { return distances_[distance <= distances_[i] ? i + 1 : i]; };
  return others % 2 ? at(others / 2) : (at(others / 2 - 1) + at(others / 2)) / 2;
}

std::span<const Spread> LeaveOneOut::of(std::span<const double> values) {
  const std::size_t n = values.size();
  order_.resize(n);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::sort(order_, [&](std::size_t a, std::size_t b) {
    return values[a] < values[b] || (values[a] == values[b] && a < b);
  });
  sorted_.resize(n);
  for (std::size_t i = 0; i < n; ++i) sorted_[i] = values[order_[i]];
  spreads_.assign(n, {});
  if (n < 2) {
    for (std::size_t i = 0; i < n; ++i) spreads_[i].centre = values[i];
    return spreads_;
  }
  const std::size_t others = n - 1;
  double centre = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t rank = 0; rank < n; ++rank) {  // at most three centres, in turn
    const auto at = [&](std::size_t i) { return sorted_[i < rank ? i : i + 1]; };
    const double low = at((others - 1) / 2), high = at(others / 2);
    const double now = low == high ? low : low / 2 + high / 2;
    if (!(now == centre)) distances(centre = now);
    const double own = sorted_[rank] == centre ? 0 : std::abs(sorted_[rank] - centre);
    spreads_[order_[rank]] = {centre, kNormal * without(own)};
  }
  return spreads_;
}

}  // namespace parity::drift
