// The noise of one output, from the base and its variants v = 0..K with errors e_v = x_v - x*.
//
// sigma_i. The mean square s_i^2 = mean_v e_vi^2 of one element has nu = K + 1 degrees of freedom,
// too few for a tail of 1e-11. Elements of one row (token and head) have similar scales, so s_i^2
// is moderated towards what the row expects (Smyth 2004: an inverse chi-square prior with nu0
// degrees of freedom about s0_i^2):
//     sigma_i^2 = (nu0 s0_i^2 + nu s_i^2) / (nu0 + nu),      e / sigma_i ~ Student(nu0 + nu)
//     s0_i^2    = tau_row^2 + ulp(x*_i)^2 / 12               noise before, and by, the last
//     rounding
// nu0 is read off how much log(s_i^2 / s0_i^2) scatters beyond the trigamma(nu / 2) of equal
// scales: a homogeneous tensor gives nu0 = inf (the row alone, normal tails), one whose channels
// differ by orders gives a small nu0 (each element for itself, heavy tails). Rows shorter than 16
// are joined with their neighbours along the longest other axis, position by position, until 16 are
// together.
//
// crowding. ln of the mean square of n independent errors has variance 2/n. Where the variants show
// more, neighbouring errors are not independent, and n counts for n / crowding only.
//
// widening. Two mean squares over n_eff errors have a ratio that is F(n_eff, (K + 1) n_eff)
// distributed, so the ratio factor is widened by the root of its upper quantile at 1e-10 over all
// regions, and never by less than (1 + 3/sqrt(n)).
#include "harness/noise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "harness/grids.hpp"
#include "harness/numeric/tails.hpp"
#include "harness/numeric/ulp.hpp"
#include "harness/walk.hpp"

namespace parity {
namespace {

// psi'(x): recurrence up to 6, then the asymptotic series (Abramowitz and Stegun 6.4.12).
double trigamma(double x) {
  double sum = 0;
  for (; x < 6; x += 1) sum += 1 / (x * x);
  const double y = 1 / (x * x);
  return sum + 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y / 42));
}

// nu0 with trigamma(nu0 / 2) = excess.
double prior_dof(double excess) {
  constexpr double kMany = 1e4;
  if (!(excess > trigamma(kMany / 2))) return kMany;
  double low = 1e-3, high = kMany;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (trigamma(middle / 2) > excess ? low : high) = middle;
  }
  return low;
}

// Elements i with the same pool share a scale.
struct Pools {
  std::vector<std::int32_t> of = {};
  std::int32_t count = 1;
};

Pools pools(const TensorSpec& spec) {
  constexpr std::int64_t kEnough = 16;
  const std::int64_t n = elements(spec.dims);
  Pools p{.of = std::vector<std::int32_t>(static_cast<std::size_t>(n))};
  const auto axes = static_cast<std::ptrdiff_t>(spec.dims.size());
  std::int64_t length = 1;
  std::ptrdiff_t first = axes;
  for (int i = 0; i < std::max(spec.row, 1) && first > 0; ++i)
    length *= spec.dims[static_cast<std::size_t>(--first)].extent;
  if (length >= kEnough) {
    for (std::int64_t i = 0; i < n; ++i)
      p.of[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i / length);
    p.count = static_cast<std::int32_t>(n / length);
    return p;
  }
  // Short rows: the longest other axis is cut into runs of 16 or more, every other coordinate kept
  // apart.
  std::int64_t stride = n, best_stride = 1, best = 1;
  for (const Dim& dim : spec.dims) {
    stride /= std::max<std::int64_t>(dim.extent, 1);
    if (dim.extent > best) best = dim.extent, best_stride = stride;
  }
  const std::int64_t runs = std::max<std::int64_t>(best / kEnough, 1);
  if (best < kEnough) return p;  // a small tensor is one pool
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t outer = i / (best_stride * best), inner = i % best_stride;
    const std::int64_t run = std::min(i / best_stride % best * runs / best, runs - 1);
    p.of[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>((outer * runs + run) * best_stride + inner);
  }
  p.count = static_cast<std::int32_t>(n / best * runs);
  return p;
}

void fit_sigma(Noise& noise, const ExpectedTensor& expected,
               const std::vector<double>& mean_square) {
  const std::size_t n = mean_square.size();
  const Pools pool = pools(expected.spec);
  std::vector<double> last(n), tau2(static_cast<std::size_t>(pool.count)), size(tau2.size());
  for (std::size_t i = 0; i < n; ++i) {
    const double step =
        std::isfinite(expected.value[i]) ? ulp(expected.spec.dtype, expected.value[i]) : 0;
    last[i] = step * step / 12;
    const auto p = static_cast<std::size_t>(pool.of[i]);
    tau2[p] += mean_square[i] - last[i];
    size[p] += 1;
  }
  for (std::size_t p = 0; p < tau2.size(); ++p) tau2[p] = std::max(0.0, tau2[p] / size[p]);

  const auto nu = static_cast<double>(noise.runs.size());
  double sum = 0, sum2 = 0, counted = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double prior = tau2[static_cast<std::size_t>(pool.of[i])] + last[i];
    if (!(mean_square[i] > 0) || !(prior > 0))
      continue;  // exact in every run: says nothing about scale
    const double scatter = std::log(mean_square[i] / prior);
    sum += scatter, sum2 += scatter * scatter, counted += 1;
  }
  // A handful of elements cannot tell their scales apart: each stands for itself.
  double nu0 = 0;
  if (counted >= 32)
    nu0 = prior_dof((sum2 - sum * sum / counted) / (counted - 1) - trigamma(nu / 2));
  noise.dof = nu0 + nu;
  noise.sigma.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double prior = tau2[static_cast<std::size_t>(pool.of[i])] + last[i];
    noise.sigma[i] = nu0 > 0 ? std::sqrt((nu0 * prior + nu * mean_square[i]) / noise.dof)
                             : std::sqrt(std::max(prior, mean_square[i]));
  }
}

double factor_for(double n, double crowding, double runs, double p) {
  if (n < kSmallestSlice) return 0;
  const double effective = std::max(n / crowding, 1.0);
  return std::max(1 + 3 / std::sqrt(n), std::sqrt(fisher_upper(p, effective, runs * effective)));
}

// n var(ln mean square) / 2 over the variants, 1 where they are independent or where there are too
// few.
double crowding_of(double n, const std::vector<double>& mean_squares) {
  double sum = 0, sum2 = 0, counted = 0;
  for (std::size_t v = 1; v < mean_squares.size(); ++v) {
    if (!(mean_squares[v] > 0)) return 1;
    const double log = std::log(mean_squares[v]);
    sum += log, sum2 += log * log, counted += 1;
  }
  if (counted < 3) return 1;
  return n * std::max(0.0, sum2 - sum * sum / counted) / (counted - 1) / 2;
}

SliceNoise slice_noise(const Slicing& s, const Grain& g, const std::vector<Moments>& runs,
                       const TruthMoments& truth, double p) {
  SliceNoise result;
  const auto count = static_cast<std::size_t>(s.count);
  const std::vector<double> size = population(s, g), x2 = gather(s, truth.row_x2, truth.column_x2);
  std::vector<std::vector<double>> e2, ex;
  double pooled_total = 0;
  for (const Moments& m : runs) {
    e2.push_back(gather(s, m.row_e2, m.column_e2));
    ex.push_back(gather(s, m.row_ex, m.column_ex));
    pooled_total += m.e2 / static_cast<double>(runs.size());
  }
  const double level = pooled_total > 0 ? runs[0].e2 / pooled_total : 0;
  double crowding = 0, judged = 0;
  std::vector<double> mean_squares(runs.size());
  for (std::size_t i = 0; i < count; ++i) {
    double pooled = 0;
    for (std::size_t v = 0; v < runs.size(); ++v) {
      mean_squares[v] = e2[v][i] / size[i];
      pooled += mean_squares[v] / static_cast<double>(runs.size());
    }
    // The base's level in the shape that all runs show: steadier than the base's own draw, not
    // above it by what stochastic rounding adds.
    result.mean_square.push_back(std::max(mean_squares[0], pooled * level));
    const double base_gain = x2[i] > 0 ? ex[0][i] / x2[i] : 0;
    double spread = 0;
    for (std::size_t v = 1; v < runs.size(); ++v)
      spread = std::max(spread, x2[i] > 0 ? std::abs(ex[v][i] / x2[i] - base_gain) : 0);
    result.gain.push_back(base_gain);
    result.gain_spread.push_back(spread);
    if (size[i] < kSmallestSlice) continue;
    crowding += crowding_of(size[i], mean_squares), judged += 1;
  }
  result.crowding = judged > 0 ? std::max(1.0, crowding / judged) : 1;
  std::map<double, double> known;
  for (const double n : size) {
    const auto [at, fresh] = known.try_emplace(n, 0);
    if (fresh) at->second = factor_for(n, result.crowding, static_cast<double>(runs.size()), p);
    result.widening.push_back(at->second);
  }
  return result;
}

}  // namespace

double sigma_factor(double n, double dof) {
  return student_upper(kElementAlpha / (2 * std::max(n, 1.0)), dof);
}

Noise measure_noise(const Base& base, const ExpectedTensor& expected) {
  Noise noise{.name = expected.spec.name};
  const Grain g = grain(expected.spec.dims);
  const std::size_t n = expected.value.size();
  std::vector<double> truth = expected.value, error(n), mean_square(n);
  for (double& x : truth)
    if (!std::isfinite(x)) x = 0;
  noise.truth = truth_moments(truth, g);
  std::vector<Moments> runs;
  for (std::size_t v = 0; v < base.runs.size(); ++v) {
    const Values* values = base.find(v, expected.spec.name);
    if (!values || values->value.size() != n) continue;
    for (std::size_t i = 0; i < n; ++i) {
      const double e = values->value[i] - expected.value[i];
      const bool counts = std::isfinite(expected.value[i]);
      if (counts && !std::isfinite(e)) noise.finite = false;
      error[i] = counts && std::isfinite(e) ? e : 0;
      mean_square[i] += error[i] * error[i];
    }
    runs.push_back(moments(truth, error, g));
    const Moments& m = runs.back();
    noise.runs.push_back({.rmse = n > 0 ? std::sqrt(m.e2 / static_cast<double>(n)) : 0,
                          .gain = noise.truth.x2 > 0 ? m.ex / noise.truth.x2 : 0,
                          .mean = n > 0 ? m.e / static_cast<double>(n) : 0});
    if (v == 0)
      noise.grid_share =
          grid_shares(telling_values(values->value, truth), expected.spec.dtype).share;
  }
  if (runs.empty() || n == 0) return noise;
  noise.base = runs[0];
  for (double& s : mean_square) s /= static_cast<double>(runs.size());
  fit_sigma(noise, expected, mean_square);

  const std::vector<Slicing> cuts = slicings(expected.spec.dims);
  double regions = 1;
  for (const Slicing& s : cuts) regions += static_cast<double>(s.count);
  for (const Slicing& s : cuts)
    noise.slices.push_back(slice_noise(s, g, runs, noise.truth, kTail / regions));
  std::vector<double> mean_squares;
  for (const RunSummary& run : noise.runs) mean_squares.push_back(run.rmse * run.rmse);
  noise.crowding = std::max(1.0, crowding_of(static_cast<double>(n), mean_squares));
  noise.widening =
      factor_for(static_cast<double>(n), noise.crowding, static_cast<double>(runs.size()), kTail);
  for (const Moments& m : runs) {
    const Uncertainty u = uncertainty(m, noise.truth, g, cuts, kTail);
    const auto add = [&](double Uncertainty::*field) {
      noise.pooled.*field += u.*field * (u.*field) / static_cast<double>(runs.size());
    };
    add(&Uncertainty::gain), add(&Uncertainty::mean), add(&Uncertainty::gain_error);
    add(&Uncertainty::mean_error), add(&Uncertainty::gain_independent);
    add(&Uncertainty::mean_independent);
  }
  for (double Uncertainty::*field :
       {&Uncertainty::gain, &Uncertainty::mean, &Uncertainty::gain_error, &Uncertainty::mean_error,
        &Uncertainty::gain_independent, &Uncertainty::mean_independent})
    noise.pooled.*field = std::sqrt(noise.pooled.*field);
  return noise;
}

void measure_noise(Base& base, const Expected& expected) {
  for (const ExpectedTensor& tensor : expected.tensors) {
    if (!tensor.bits.empty() || !format(tensor.spec.dtype).is_float ||
        base.noise_of(tensor.spec.name))
      continue;
    base.noise.push_back(measure_noise(base, tensor));
  }
}

}  // namespace parity
