#include "harness/drift/growth.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/numeric/philox.hpp"

namespace parity::drift {
namespace {

constexpr std::int64_t kResamples = 2000;
constexpr std::size_t kMostLags = 256;
constexpr double kFarApart = 0.01;  // 1 %: where a difference that still grows is extrapolated to

double median_size(std::span<const double> values) {
  std::vector<double> sizes;
  sizes.reserve(values.size());
  for (const double v : values) sizes.push_back(std::abs(v));
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + std::ssize(sizes) / 2;
  std::ranges::nth_element(sizes, middle);
  return *middle;
}

// 1 + 2 sum of autocorrelations, up to the first that is not positive.
double correlation_time(std::span<const double> values, double mean) {
  double variance = 0;
  for (const double v : values) variance += (v - mean) * (v - mean);
  if (!(variance > 0)) return 1;
  double time = 1;
  for (std::size_t lag = 1; lag < std::min(kMostLags, values.size() / 4); ++lag) {
    double sum = 0;
    for (std::size_t i = lag; i < values.size(); ++i)
      sum += (values[i] - mean) * (values[i - lag] - mean);
    if (sum <= 0) break;
    time += 2 * sum / variance;
  }
  return time;
}

}  // namespace

Growth growth_of(std::span<const double> d) {
  Growth growth;
  if (d.size() < 16) return growth;
  const std::size_t quarter = d.size() / 4;
  growth.level = median_size(d.last(quarter));
  const double before = median_size(d.subspan(d.size() - 2 * quarter, quarter));
  growth.saturated = growth.level <= 1.5 * before;
  const auto first = std::ranges::find_if(d, [](double v) { return v != 0; });
  growth.from = static_cast<std::size_t>(first - d.begin());
  if (first == d.end() || growth.level == 0) return growth;
  // Until half the final size is reached: beyond it growth slows down.
  growth.to = growth.from;
  while (growth.to + 1 < d.size() && std::abs(d[growth.to]) < growth.level / 2) ++growth.to;
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = growth.from; i <= growth.to; ++i) {
    if (d[i] == 0) continue;
    const auto t = static_cast<double>(i);
    const double size = std::log(std::abs(d[i]));
    n += 1, x += t, y += size, xx += t * t, xy += t * size;
  }
  const double square = xx - x * x / n, rate = square > 0 ? (xy - x * y / n) / square : 0;
  const auto stretch = static_cast<double>(growth.to - growth.from);
  if (n < 4 || !(rate * stretch > 1)) return growth;  // less than one e-folding is no growth
  growth.e_folding = 1 / rate;
  growth.horizon = growth.saturated ? static_cast<double>(growth.to)
                                    : static_cast<double>(d.size() - 1) +
                                          std::max(0.0, std::log(kFarApart / growth.level)) / rate;
  return growth;
}

Interval block_bootstrap(std::span<const double> values, double alpha) {
  Interval interval;
  const std::size_t n = values.size();
  if (n == 0) return interval;
  std::vector<double> sums(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + values[i];
  interval.mean = sums[n] / static_cast<double>(n);
  const double wanted =
      std::max(std::cbrt(static_cast<double>(n)), 2 * correlation_time(values, interval.mean));
  const auto block = static_cast<std::size_t>(
      std::clamp(std::ceil(wanted), 1.0, std::max(1.0, static_cast<double>(n) / 4)));
  interval.block = static_cast<std::int64_t>(block);
  const std::size_t blocks = (n + block - 1) / block;
  const Rng rng{.seed = 13, .stream = 0xD21F7};
  std::vector<double> means;
  std::uint64_t draw = 0;
  for (std::int64_t r = 0; r < kResamples; ++r) {
    double sum = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto at =
          static_cast<std::size_t>(rng.integer(draw++, 0, static_cast<std::int64_t>(n - block)));
      sum += sums[at + block] - sums[at];
    }
    means.push_back(sum / static_cast<double>(blocks * block));
  }
  std::ranges::sort(means);
  double centre = 0;
  for (const double m : means) centre += m / static_cast<double>(means.size());
  const auto at = [&](double q) {
    return means[static_cast<std::size_t>(q * static_cast<double>(means.size() - 1))];
  };
  interval.low = at(alpha / 2);
  interval.high = at(1 - alpha / 2);
  const auto as_far = std::ranges::count_if(
      means, [&](double m) { return std::abs(m - centre) >= std::abs(interval.mean); });
  interval.p = static_cast<double>(1 + as_far) / static_cast<double>(kResamples + 1);
  return interval;
}

Interval block_bootstrap_trend(std::span<const double> values, double alpha) {
  // slope = sum (t - mid) (v - mean) / sum (t - mid)^2, as a mean of n terms, times n
  const auto n = static_cast<double>(values.size());
  double mean = 0;
  for (const double v : values) mean += v / n;
  const double square = std::max(1.0, (n * n * n - n) / 12);
  std::vector<double> terms;
  terms.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    terms.push_back((static_cast<double>(i) - (n - 1) / 2) * (values[i] - mean) / square * n * n);
  return block_bootstrap(terms, alpha);
}

}  // namespace parity::drift
