#include "harness/closeness.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "harness/noise.hpp"

namespace parity {
namespace {

// Student's distribution with four degrees of freedom: minus twice its logarithm, from its peak.
double loss_of(double units) { return 5 * std::log1p(units * units / 4); }

double sum_of_sizes(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values)
    if (std::isfinite(v)) sum += std::abs(v);
  return sum;
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TensorDistance of_codes(const Tensor& candidate, const Values& values,
                        const ExpectedTensor& truth) {
  TensorDistance d{.name = truth.spec.name};
  const Dtype dtype = truth.spec.dtype;
  for (std::int64_t i = 0; i < candidate.elements(); ++i) {
    if (!truth.ignore.empty() && truth.ignore[static_cast<std::size_t>(i)]) continue;
    ++d.elements;
    if (load_code(dtype, candidate.bytes.data(), i) == load_code(dtype, values.bits.data(), i))
      ++d.equal;
  }
  const double wrong = static_cast<double>(d.elements - d.equal);
  const double share = d.elements ? wrong / static_cast<double>(d.elements) : 0;
  d.loss = loss_of(kFarthest) * share;
  d.mean_square = kFarthest * kFarthest * share;
  d.rel_l2 = std::sqrt(share);
  return d;
}

TensorDistance of_values(const std::vector<double>& candidate, const Values& values,
                         const ExpectedTensor& truth, const Yardstick& yardstick, double spread) {
  TensorDistance d{.name = truth.spec.name};
  double sum = 0, loss = 0, difference = 0, size = 0;
  for (std::size_t i = 0; i < candidate.size(); ++i) {
    if (!truth.ignore.empty() && truth.ignore[i]) continue;
    const double c = candidate[i], v = values.value[i];
    ++d.elements;
    if (std::isfinite(v)) size += v * v;
    if (same(c, v)) {
      ++d.equal;
      continue;
    }
    const double apart = std::abs(c - v);
    difference += std::isfinite(apart) ? apart * apart : 0;
    const double sigma = std::max(yardstick.sigma.empty() ? 0 : yardstick.sigma[i],
                                  yardstick.relative * std::max(std::abs(c), std::abs(v)));
    // Two legal evaluations differ by the root of two of what one is off.
    double units = apart / (sigma * spread * std::sqrt(2.0));
    if (!(units < kFarthest)) units = kFarthest;  // NaN and 0/0 too
    sum += units * units;
    loss += loss_of(units);
  }
  if (d.elements > d.equal) {
    d.mean_square = sum / static_cast<double>(d.elements);
    d.loss = loss / static_cast<double>(d.elements) + 2 * std::log(spread);
  }
  d.rel_l2 = difference > 0 ? std::sqrt(difference / size) : 0;
  return d;
}

}  // namespace

std::vector<Yardstick> yardsticks(const Expected& expected, const Base& base) {
  std::vector<Yardstick> all;
  for (const ExpectedTensor& truth : expected.tensors) {
    Yardstick& y = all.emplace_back(Yardstick{.name = truth.spec.name});
    if (!truth.bits.empty()) continue;
    const Format& out = format(truth.spec.dtype);
    const Noise* noise = base.noise_of(truth.spec.name);
    if (noise && noise->sigma.size() == truth.value.size())
      y.sigma = noise->sigma;
    else
      y.sigma.assign(truth.value.size(), 0);
    // The output's own rounding at least: uniform over an ulp, so u / sqrt 3.
    const double rounding = out.unit_roundoff / std::sqrt(3.0);
    for (std::size_t i = 0; i < y.sigma.size(); ++i) {
      const double size = std::isfinite(truth.value[i]) ? std::abs(truth.value[i]) : 0;
      if (!std::isfinite(y.sigma[i])) y.sigma[i] = 0;
      y.sigma[i] = std::max({y.sigma[i], rounding * size, out.min_subnormal / 4});
    }
    const double size = sum_of_sizes(truth.value);
    y.relative = size > 0 ? sum_of_sizes(y.sigma) / size : rounding;
    // Where all that is known of an element is that it is small.
    const double floor =
        1e-3 * y.relative * size / std::max(1.0, static_cast<double>(y.sigma.size()));
    for (double& sigma : y.sigma) sigma = std::max(sigma, floor);
  }
  return all;
}

double Distance::units() const { return std::sqrt(mean_square); }

double Distance::share_equal() const {
  return elements ? static_cast<double>(equal) / static_cast<double>(elements) : 0;
}

double Distance::rel_l2() const {
  double worst = 0;
  for (const TensorDistance& each : tensors)
    if (!(each.rel_l2 <= worst)) worst = each.rel_l2;
  return worst;
}

Distance distance(const Tensors& candidate, const Evaluation& evaluation, const Expected& expected,
                  const std::vector<Yardstick>& known, const std::vector<double>& spread) {
  Distance d;
  for (std::size_t t = 0; t < expected.tensors.size(); ++t) {
    const ExpectedTensor& truth = expected.tensors[t];
    const Tensor* got = candidate.find(truth.spec.name);
    if (!got || got->elements() != elements(truth.spec.dims) || got->elements() == 0) continue;
    const auto values = std::ranges::find(evaluation, truth.spec.name, &Values::name);
    TensorDistance one{.name = truth.spec.name,
                       .elements = got->elements(),
                       .loss = loss_of(kFarthest),
                       .mean_square = kFarthest * kFarthest};  // an evaluation without it
    if (values != evaluation.end() && values->bits.size() == got->bytes.size() &&
        !values->bits.empty())
      one = of_codes(*got, *values, truth);
    else if (values != evaluation.end() &&
             values->value.size() == static_cast<std::size_t>(got->elements()))
      one = of_values(got->widened(), *values, truth, known[t], spread.empty() ? 1 : spread[t]);
    d.loss += one.loss;
    d.total += one.loss * static_cast<double>(one.elements);
    d.mean_square += one.mean_square;
    d.elements += one.elements;
    d.equal += one.equal;
    d.tensors.push_back(std::move(one));
  }
  if (d.tensors.empty()) return {.loss = loss_of(kFarthest), .mean_square = kFarthest * kFarthest};
  d.loss /= static_cast<double>(d.tensors.size());
  d.mean_square /= static_cast<double>(d.tensors.size());
  return d;
}

std::vector<double> spread_of(const Evaluation& one, const Evaluation& other,
                              const Expected& expected, const std::vector<Yardstick>& known) {
  std::vector<double> spread;
  for (std::size_t t = 0; t < expected.tensors.size(); ++t) {
    const ExpectedTensor& truth = expected.tensors[t];
    const auto a = std::ranges::find(one, truth.spec.name, &Values::name);
    const auto b = std::ranges::find(other, truth.spec.name, &Values::name);
    double apart = 0;
    if (a != one.end() && b != other.end() && !a->value.empty() &&
        a->value.size() == b->value.size())
      apart = std::sqrt(of_values(a->value, *b, truth, known[t], 1).mean_square);
    spread.push_back(std::max(1.0, apart));
  }
  return spread;
}

Evaluation evaluation_of(const Tensors& tensors, const Expected& expected) {
  Evaluation all;
  for (const ExpectedTensor& truth : expected.tensors) {
    const Tensor* found = tensors.find(truth.spec.name);
    if (!found) continue;
    if (truth.bits.empty())
      all.push_back({.name = truth.spec.name, .value = found->widened()});
    else
      all.push_back({.name = truth.spec.name, .bits = found->bytes});
  }
  return all;
}

}  // namespace parity
