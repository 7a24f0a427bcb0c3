#include "harness/drift/running.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace parity::drift {
namespace {

constexpr double kSmall = 0.1;           // sigma: below it no statistic tells sizes apart
constexpr std::int64_t kFirstLevel = 8;  // steps of the shortest mean
constexpr double kLeastEnvelope = 1;     // sigma

std::int64_t half(std::int64_t steps) { return steps / 2; }  // the first step of the last half

}  // namespace

std::string_view name(Statistic s) {
  static constexpr std::array<std::string_view, kStatistics> kNames = {"step", "sum", "slope",
                                                                       "signs", "level"};
  return kNames[static_cast<std::size_t>(s)];
}

double Running::add(double residual, double envelope, std::int64_t at, std::int64_t steps) {
  const double size = std::abs(residual), ratio = size / std::max(envelope, kLeastEnvelope);
  largest_ = std::max(largest_, size);
  ratio_ = std::max(ratio_, ratio);
  sum_ += residual;
  const auto n = static_cast<double>(at + 1);
  peak_ = std::max(peak_, std::abs(sum_) / std::sqrt(n));
  const double level = std::log(size + kSmall);
  level_ += level;
  if ((at + 1 >= kFirstLevel && std::has_single_bit(static_cast<std::uint64_t>(at + 1))) ||
      at + 1 == steps)
    highest_ = std::max(highest_, level_ / n);
  if (at >= half(steps)) {
    const double middle = static_cast<double>(half(steps) + steps - 1) / 2;
    moment_ += (static_cast<double>(at) - middle) * residual;
    late_ += level;
  }
  const int sign = residual > 0 ? 1 : residual < 0 ? -1 : 0;
  run_ = sign == 0 ? 0 : sign == sign_ ? run_ + 1 : 1;
  sign_ = sign;
  longest_ = std::max(longest_, run_);
  return ratio;
}

Statistics Running::statistics(std::int64_t steps) const {
  const auto late = static_cast<double>(steps - half(steps));
  // sum of (t - mean t)^2 over n steps in a row: (n^3 - n) / 12
  const double square = std::max(1.0, (late * late * late - late) / 12);
  return {std::log(ratio_ + kSmall), std::log(peak_ + kSmall),
          std::log(std::abs(moment_) / square * late + kSmall),
          std::log(static_cast<double>(longest_ + 1)), std::max(highest_, late_ / late)};
}

}  // namespace parity::drift
