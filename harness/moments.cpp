#include "harness/moments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "harness/numeric/tails.hpp"

namespace parity {
namespace {

constexpr std::size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

double fold(const Lanes& a) {
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

// Many tensors of a run have the same numbers of regions.
double student_cached(double p, double dof) {
  thread_local std::map<std::pair<double, double>, double> known;
  const auto [at, fresh] = known.try_emplace({p, dof}, 0);
  if (fresh) at->second = student_upper(p, dof);
  return at->second;
}

}  // namespace

Moments moments(std::span<const double> truth, std::span<const double> error, const Grain& g) {
  Moments m;
  const auto rows = static_cast<std::size_t>(g.rows), columns = static_cast<std::size_t>(g.columns);
  m.row_e.resize(rows), m.row_e2.resize(rows), m.row_ex.resize(rows), m.row_e2x2.resize(rows);
  m.column_e.resize(columns), m.column_e2.resize(columns), m.column_ex.resize(columns);
  m.column_e2x2.resize(columns);
  double* const ce = m.column_e.data();
  double* const ce2 = m.column_e2.data();
  double* const cex = m.column_ex.data();
  double* const cq = m.column_e2x2.data();
  for (std::size_t r = 0; r < rows; ++r) {
    const double* const x = truth.data() + r * columns;
    const double* const e = error.data() + r * columns;
    Lanes se{}, se2{}, sex{}, se2x2{};
    std::size_t c = 0;
    for (; c + kLanes <= columns; c += kLanes)
      for (std::size_t l = 0; l < kLanes; ++l) {
        const double v = e[c + l], v2 = v * v, vx = v * x[c + l];
        se[l] += v, se2[l] += v2, sex[l] += vx, se2x2[l] += vx * vx;
        ce[c + l] += v, ce2[c + l] += v2, cex[c + l] += vx, cq[c + l] += vx * vx;
      }
    for (; c < columns; ++c) {
      const double v = e[c], v2 = v * v, vx = v * x[c];
      const std::size_t l = c % kLanes;
      se[l] += v, se2[l] += v2, sex[l] += vx, se2x2[l] += vx * vx;
      ce[c] += v, ce2[c] += v2, cex[c] += vx, cq[c] += vx * vx;
    }
    m.row_e[r] = fold(se), m.row_e2[r] = fold(se2), m.row_ex[r] = fold(sex);
    m.row_e2x2[r] = fold(se2x2);
    m.e += m.row_e[r], m.e2 += m.row_e2[r], m.ex += m.row_ex[r], m.e2x2 += m.row_e2x2[r];
  }
  return m;
}

TruthMoments truth_moments(std::span<const double> truth, const Grain& g) {
  TruthMoments m;
  const auto rows = static_cast<std::size_t>(g.rows), columns = static_cast<std::size_t>(g.columns);
  m.row_x2.resize(rows), m.column_x2.resize(columns);
  for (std::size_t r = 0; r < rows; ++r) {
    const double* const x = truth.data() + r * columns;
    Lanes sum{};
    for (std::size_t c = 0; c < columns; ++c) {
      const double x2 = x[c] * x[c];
      sum[c % kLanes] += x2;
      m.column_x2[c] += x2;
    }
    m.row_x2[r] = fold(sum);
    m.x2 += m.row_x2[r];
  }
  return m;
}

Uncertainty uncertainty(const Moments& m, const TruthMoments& t, const Grain& g,
                        const std::vector<Slicing>& slicings, double p) {
  constexpr std::int64_t kRegions = 30;
  Uncertainty u;
  const double n = static_cast<double>(g.rows) * static_cast<double>(g.columns);
  if (n < 2) return u;
  const double gain = t.x2 > 0 ? m.ex / t.x2 : 0, mean = m.e / n;
  const auto consider = [&](double gain_error, double mean_error, double regions) {
    const double factor = student_cached(p, regions - 1);
    u.gain = std::max(u.gain, factor * gain_error);
    u.mean = std::max(u.mean, factor * mean_error);
    u.gain_error = std::max(u.gain_error, gain_error);
    u.mean_error = std::max(u.mean_error, mean_error);
  };
  u.gain_independent = t.x2 > 0 ? std::sqrt(m.e2x2) / t.x2 : 0;
  u.mean_independent = std::sqrt(std::max(0.0, m.e2 / n - mean * mean) / n);
  consider(u.gain_independent, u.mean_independent, n);
  for (const Slicing& s : slicings) {
    if (s.count < kRegions) continue;
    const std::vector<double> ex = gather(s, m.row_ex, m.column_ex);
    const std::vector<double> x2 = gather(s, t.row_x2, t.column_x2);
    const std::vector<double> e = gather(s, m.row_e, m.column_e);
    const std::vector<double> size = population(s, g);
    double gain_sum = 0, mean_sum = 0;
    for (std::size_t i = 0; i < ex.size(); ++i) {
      // Without the bias itself, which would otherwise hide behind its own square.
      const double along = ex[i] - gain * x2[i], off = e[i] - mean * size[i];
      gain_sum += along * along, mean_sum += off * off;
    }
    const auto regions = static_cast<double>(s.count);
    const double unbiased = regions / (regions - 1);
    consider(t.x2 > 0 ? std::sqrt(unbiased * gain_sum) / t.x2 : 0,
             std::sqrt(unbiased * mean_sum) / n, regions);
  }
  return u;
}

}  // namespace parity
