// The noise of one output, from the base and its variants v = 0..K with errors e_v = x_v - x*.
//
// sigma_i. The mean square s_i^2 = mean_v e_vi^2 of one element has nu = K + 1 degrees of freedom,
// too few for a tail of 1e-11. Elements of one row (token and head) have related scales, so s_i^2
// is moderated towards what its place expects (Smyth 2004: an inverse chi-square prior with nu0
// degrees of freedom about s0_i^2):
//     sigma_i^2 = ((nu0 - 2) s0_i^2 + nu s_i^2) / (nu0 + nu),      e / sigma_i ~ Student(nu0 + nu)
//     s0_i^2    = tau_row^2 kappa_column + ulp(x*_i)^2 / 12        noise before, and by, the last
//     rounding
// tau_row^2 is the row's mean, kappa the profile of its columns (gates differ by channel), averaged
// over the longest other axis. nu0 follows from the variance of s_i^2 / s0_i^2, which is 2 (nu +
// nu0 - 2) / (nu (nu0 - 4)) under that prior: the upper tail of the scales, which is what a bound
// must not underestimate; their logarithms would be ruled by the quietest elements. A homogeneous
// tensor gives nu0 = inf (the place alone, normal tails), one with loud elements nu0 near 4 (each
// element for itself, heavy tails). Rows shorter than 16 are joined with their neighbours along the
// longest other axis, position by position, until 16 are together.
//
// crowding. ln of the mean square of n independent errors has variance 2/n. Where the variants show
// more, neighbouring errors are not independent, and n counts for n / crowding only. K variants
// know that variance to K - 1 degrees of freedom, however many regions there are (they share the
// variants), so its excess over 1 is taken at the upper end of its 95 % interval. Regions that
// crowd more than the others (an ill-conditioned chunk) are moderated by the rule of sigma. What a
// region shares, the tensor shares too.
//
// crowding of gain and mean. The same for the signed sums <e, x> and <e, 1>: their variance over
// the K + 1 runs against the variance that uncertainty() derives from one run. A rounded operand
// that the whole tensor shares, or a tensor of few regions, moves them more than that formula
// knows.
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

// nu0 whose F(nu, nu0) has this relative variance; 4 where none is so wide.
double prior_dof(double relative_variance, double nu) {
  constexpr double kMany = 1e4;
  const double excess = relative_variance - 2 / nu;
  if (!(excess > 0)) return kMany;
  // v nu (nu0 - 4) = 2 (nu + nu0 - 2)
  const double nu0 = (4 * relative_variance * nu + 2 * (nu - 2)) / (nu * excess);
  return std::clamp(nu0, 4.0, kMany);
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

// kappa: how a column's noise compares with its rows', over the longest axis other than the last.
// 1 where that axis is too short to tell, or where rows are.
std::vector<double> column_profile(const TensorSpec& spec, const std::vector<double>& before,
                                   const Pools& pool, const std::vector<double>& tau2) {
  constexpr std::int64_t kEnough = 16;
  const auto n = static_cast<std::int64_t>(before.size());
  std::vector<double> kappa(before.size(), 1.0);
  std::int64_t stride = n, axis_stride = 0, extent = 1;
  for (std::size_t i = 0; i + 1 < spec.dims.size(); ++i) {
    stride /= spec.dims[i].extent;
    if (spec.dims[i].extent > extent) extent = spec.dims[i].extent, axis_stride = stride;
  }
  if (extent < kEnough || spec.dims.back().extent < kEnough) return kappa;
  std::vector<double> sum(static_cast<std::size_t>(n / extent)), count(sum.size());
  const auto column = [&](std::int64_t i) {
    return static_cast<std::size_t>(i / (axis_stride * extent) * axis_stride + i % axis_stride);
  };
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double row = tau2[static_cast<std::size_t>(pool.of[at])];
    if (row > 0) sum[column(i)] += before[at] / row, count[column(i)] += 1;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::size_t c = column(i);
    if (count[c] > 0) kappa[static_cast<std::size_t>(i)] = std::max(0.0, sum[c] / count[c]);
  }
  return kappa;
}

void fit_sigma(Noise& noise, const ExpectedTensor& expected,
               const std::vector<double>& mean_square) {
  const std::size_t n = mean_square.size();
  const Pools pool = pools(expected.spec);
  std::vector<double> last(n), before(n), tau2(static_cast<std::size_t>(pool.count)),
      size(tau2.size());
  for (std::size_t i = 0; i < n; ++i) {
    const double step =
        std::isfinite(expected.value[i]) ? ulp(expected.spec.dtype, expected.value[i]) : 0;
    last[i] = step * step / 12;
    before[i] = mean_square[i] - last[i];
    const auto p = static_cast<std::size_t>(pool.of[i]);
    tau2[p] += before[i];
    size[p] += 1;
  }
  for (std::size_t p = 0; p < tau2.size(); ++p) tau2[p] = std::max(0.0, tau2[p] / size[p]);
  const std::vector<double> kappa = column_profile(expected.spec, before, pool, tau2);
  std::vector<double> prior(n);
  for (std::size_t i = 0; i < n; ++i)
    prior[i] = tau2[static_cast<std::size_t>(pool.of[i])] * kappa[i] + last[i];

  const auto nu = static_cast<double>(noise.runs.size());
  double sum = 0, sum2 = 0, counted = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!(prior[i] > 0)) continue;  // exact in every run: says nothing about scale
    const double ratio = mean_square[i] / prior[i];
    sum += ratio, sum2 += ratio * ratio, counted += 1;
  }
  noise.sigma.resize(n);
  if (counted <
      32) {  // a handful of elements cannot tell their scales apart: each stands for itself
    noise.dof = nu;
    for (std::size_t i = 0; i < n; ++i)
      noise.sigma[i] = std::sqrt(std::max(prior[i], mean_square[i]));
    return;
  }
  const double mean = sum / counted;
  const double nu0 = prior_dof((sum2 / counted / (mean * mean) - 1) * counted / (counted - 1), nu);
  noise.dof = nu0 + nu;
  for (std::size_t i = 0; i < n; ++i)
    noise.sigma[i] = std::sqrt(((nu0 - 2) * mean * prior[i] + nu * mean_square[i]) / noise.dof);
}

double factor_for(double n, double crowding, double runs, double p) {
  if (n < kSmallestSlice) return 0;
  const double effective = std::max(n / crowding, 1.0);
  return std::max(1 + 3 / std::sqrt(n), std::sqrt(fisher_upper(p, effective, runs * effective)));
}

// At the upper end of its interval; at least 1.
double cautious(double crowding, double dof) {
  if (!(crowding > 1) || dof < 2) return std::max(1.0, crowding);
  return 1 + (crowding - 1) * dof / chi_square_upper(0.95, dof);
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

double variance(const std::vector<double>& values) {
  double sum = 0, sum2 = 0;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) sum += v;
  for (const double v : values) sum2 += (v - sum / n) * (v - sum / n);
  return n > 1 ? sum2 / (n - 1) : 0;
}

// What regions add to each other's knowledge: own values with `dof` degrees of freedom are
// moderated towards the common one, as the scales of elements are, and never below it.
void moderate(std::vector<double>& own, const std::vector<double>& size, double common,
              double dof) {
  double sum = 0, sum2 = 0, counted = 0;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (size[i] >= kSmallestSlice) sum += own[i], sum2 += own[i] * own[i], counted += 1;
  const double mean = counted > 0 ? sum / counted : 0;
  const double nu0 =
      counted > 1 && mean > 0 && dof > 0
          ? prior_dof((sum2 / counted / (mean * mean) - 1) * counted / (counted - 1), dof)
          : 0;
  for (double& value : own)
    value = nu0 > 0 ? std::max(common, (nu0 * mean + dof * value) / (nu0 + dof)) : common;
}

SliceNoise slice_noise(const Slicing& s, const Grain& g, const std::vector<Moments>& runs,
                       const TruthMoments& truth, double p) {
  SliceNoise result;
  const auto count = static_cast<std::size_t>(s.count);
  const std::vector<double> size = population(s, g), x2 = gather(s, truth.row_x2, truth.column_x2);
  std::vector<std::vector<double>> e2, ex, e2x2;
  double pooled_total = 0;
  for (const Moments& m : runs) {
    e2.push_back(gather(s, m.row_e2, m.column_e2));
    ex.push_back(gather(s, m.row_ex, m.column_ex));
    e2x2.push_back(gather(s, m.row_e2x2, m.column_e2x2));
    pooled_total += m.e2 / static_cast<double>(runs.size());
  }
  const double level = pooled_total > 0 ? runs[0].e2 / pooled_total : 0;
  double judged = 0, total_crowding = 0, total_gain_crowding = 0;
  std::vector<double> crowding(count, 1.0);
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
    if (x2[i] > 0) {
      std::vector<double> gains(runs.size());
      double expected = 0;
      for (std::size_t v = 0; v < runs.size(); ++v) {
        gains[v] = ex[v][i] / x2[i];
        expected += e2x2[v][i] / (x2[i] * x2[i]) / static_cast<double>(runs.size());
      }
      result.gain.push_back(gains[0]);
      result.gain_crowding.push_back(expected > 0 ? variance(gains) / expected : 1);
    } else {
      result.gain.push_back(0);
      result.gain_crowding.push_back(1);
    }
    if (size[i] < kSmallestSlice) continue;
    crowding[i] = crowding_of(size[i], mean_squares);
    total_crowding += crowding[i], total_gain_crowding += result.gain_crowding[i], judged += 1;
  }
  const auto known = static_cast<double>(runs.size());
  const auto common = [&](double total, double dof) {
    return judged > 0 ? cautious(total / judged, dof) : 1;
  };
  result.crowding = common(total_crowding, known - 2);
  moderate(crowding, size, result.crowding, known - 2);
  moderate(result.gain_crowding, size, common(total_gain_crowding, known - 1), known - 1);
  std::map<std::pair<double, double>, double> factors;  // crowding in steps of 2^(1/16), upwards
  for (std::size_t i = 0; i < count; ++i) {
    const double step = std::exp2(std::ceil(16 * std::log2(crowding[i])) / 16);
    const auto [at, fresh] = factors.try_emplace({size[i], step}, 0);
    if (fresh) at->second = factor_for(size[i], step, known, p);
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
      const bool open = i < expected.ignore.size() && expected.ignore[i] != 0;
      const bool counts = std::isfinite(expected.value[i]) && !open;
      if (counts && !std::isfinite(e)) noise.finite = false;
      error[i] = counts && std::isfinite(e) ? e : 0;
      mean_square[i] += error[i] * error[i];
    }
    runs.push_back(moments(truth, error, g));
    const Moments& m = runs.back();
    noise.runs.push_back({.rmse = n > 0 ? std::sqrt(m.e2 / static_cast<double>(n)) : 0,
                          .gain = noise.truth.x2 > 0 ? m.ex / noise.truth.x2 : 0,
                          .mean = n > 0 ? m.e / static_cast<double>(n) : 0});
    const std::vector<double> share =
        grid_shares(telling_values(values->value, truth), expected.spec.dtype).share;
    noise.grid_share.resize(share.size());
    for (std::size_t k = 0; k < share.size(); ++k)
      noise.grid_share[k] = std::max(noise.grid_share[k], share[k]);
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
  noise.crowding = cautious(crowding_of(static_cast<double>(n), mean_squares),
                            static_cast<double>(noise.runs.size()) - 2);
  for (const SliceNoise& s : noise.slices) noise.crowding = std::max(noise.crowding, s.crowding);
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
  const auto crowded = [&](double RunSummary::*what, double known) {
    std::vector<double> values;
    for (const RunSummary& run : noise.runs) values.push_back(run.*what);
    const double dof = static_cast<double>(values.size()) - 1;
    return known > 0 ? cautious(variance(values) / (known * known), dof) : 1;
  };
  noise.gain_crowding = crowded(&RunSummary::gain, noise.pooled.gain_error);
  noise.mean_crowding = crowded(&RunSummary::mean, noise.pooled.mean_error);
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
