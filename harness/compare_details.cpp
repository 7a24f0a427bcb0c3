// What the page shows of a tensor: quantiles, worst points, profiles along axes, heatmaps, error
// against magnitude. Nothing here is judged.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>

#include "harness/compare_parts.hpp"
#include "harness/numeric/pair_stats.hpp"
#include "harness/numeric/tails.hpp"

namespace parity {
namespace {

std::string letter(const Dim& dim) {
  std::string text = dim.name;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

double at_quantile(std::vector<double>& used, double q) {
  const auto rank =
      static_cast<std::ptrdiff_t>(std::ceil(q * static_cast<double>(used.size()))) - 1;
  const auto at = used.begin() + std::clamp<std::ptrdiff_t>(rank, 0, std::ssize(used) - 1);
  std::nth_element(used.begin(), at, used.end());
  return *at;
}

void worst_points(const Compared& t, const std::vector<double>& used, TensorRecord& r) {
  std::vector<std::size_t> order(used.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t keep = std::min<std::size_t>(10, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(),
      [&](std::size_t a, std::size_t b) { return used[a] != used[b] ? used[a] > used[b] : a < b; });
  for (std::size_t k = 0; k < keep; ++k)
    if (used[order[k]] > 0) r.worst_points.push_back(point_at(t, order[k]));
}

struct Axis {
  std::string name = {};
  std::int64_t stride = 1, extent = 1, period = 0;  // period: index modulo it
  std::int64_t size() const { return period > 0 ? period : extent; }
};

// Calls each(first, last, index) for the stretches of one index along the axis, in order.
template <class Each>
void along(const Axis& axis, std::size_t n, Each each) {
  const auto stride = static_cast<std::size_t>(axis.stride);
  std::int64_t index = 0;
  for (std::size_t i = 0; i < n; i += stride) {
    each(i, i + stride, axis.period > 0 ? index % axis.period : index);
    if (++index == axis.extent) index = 0;
  }
}

std::vector<Axis> axes(const std::vector<Dim>& dims) {
  std::vector<Axis> list;
  std::int64_t stride = elements(dims);
  for (const Dim& dim : dims) {
    stride /= dim.extent;
    if (dim.extent > 1)
      list.push_back({.name = letter(dim), .stride = stride, .extent = dim.extent});
  }
  for (std::size_t i = 0, n = list.size(); i < n; ++i)
    for (const std::int64_t period : {16, 64})
      if (list[i].extent >= 2 * period) {
        Axis modulo = list[i];
        modulo.period = period;
        modulo.name += "%" + std::to_string(period);
        list.push_back(modulo);
      }
  return list;
}

// Chi-square of the mean squares per index about their mean, in units of the base's own where there
// is one: a mean square over n errors scatters by 2/n of its square, by crowding times that where
// errors share.
AxisProfile profile(const Compared& t, const Axis& axis, const std::vector<double>& used) {
  constexpr std::int64_t kBins = 256;
  const std::int64_t size = axis.size(), bins = std::min(size, kBins);
  const auto at = [&](std::int64_t index) { return static_cast<std::size_t>(index * bins / size); };
  std::vector<double> e2(static_cast<std::size_t>(bins)), base2(e2), count(e2);
  AxisProfile p{.axis = axis.name, .bound_used = std::vector<double>(e2.size())};
  along(axis, used.size(), [&](std::size_t first, std::size_t last, std::int64_t index) {
    const std::size_t b = at(index);
    for (std::size_t i = first; i < last; ++i) {
      p.bound_used[b] = std::max(p.bound_used[b], used[i]);
      e2[b] += t.error[i] * t.error[i];
      if (t.base.empty()) continue;
      const double e = t.base[i] - t.truth[i];
      base2[b] += std::isfinite(e) ? e * e : 0;
    }
    count[b] += static_cast<double>(last - first);
  });
  const double total = std::accumulate(e2.begin(), e2.end(), 0.0),
               base = std::accumulate(base2.begin(), base2.end(), 0.0);
  const double unit = base > 0 ? base : total;
  for (std::size_t b = 0; b < e2.size(); ++b)
    p.rms.push_back(unit > 0 ? std::sqrt(e2[b] / count[b] / (unit / t.n())) : 0);
  double crowding = 1, draws = 1;
  if (base > 0 && t.noise) {
    crowding = t.noise->crowding, draws = 2;
    for (const SliceNoise& s : t.noise->slices) crowding = std::max(crowding, s.crowding);
  }
  if (!(total > 0)) return p;
  for (std::size_t b = 0; b < e2.size(); ++b) {
    const double expect = base > 0 && base2[b] > 0 ? base2[b] / base : count[b] / t.n();
    const double off = e2[b] / total / expect - 1;
    p.chi_square += off * off * count[b] / (2 * draws * crowding);
  }
  p.chi_limit = bins > 1 ? chi_square_upper(1e-6, static_cast<double>(bins - 1)) : 0;
  return p;
}

Heatmap heatmap(const Axis& rows, const Axis& cols, const std::vector<double>& used) {
  constexpr std::int64_t kBins = 64;
  Heatmap map{.rows = rows.name,
              .cols = cols.name,
              .height = std::min(rows.extent, kBins),
              .width = std::min(cols.extent, kBins)};
  map.cells.resize(static_cast<std::size_t>(map.height * map.width));
  // The columns' index repeats within each of the rows'.
  along(rows, used.size(), [&](std::size_t first, std::size_t last, std::int64_t row) {
    const std::int64_t r = row * map.height / rows.extent;
    along(cols, last - first, [&](std::size_t from, std::size_t to, std::int64_t col) {
      double& cell =
          map.cells[static_cast<std::size_t>(r * map.width + col * map.width / cols.extent)];
      for (std::size_t i = first + from; i < first + to; ++i) cell = std::max(cell, used[i]);
    });
  });
  return map;
}

// Bins of one octave of magnitude by one octave of error; an exact element has no place.
Scatter scatter(const Compared& t) {
  struct Bin {
    double count = 0, allowed = 0;
  };
  std::map<int, std::map<int, Bin>> bins;
  for (std::size_t i = 0; i < t.error.size(); ++i) {
    if (t.error[i] == 0 || t.truth[i] == 0) continue;
    Bin& bin = bins[std::ilogb(t.truth[i])][std::ilogb(t.error[i])];
    bin.count += 1;
    bin.allowed += std::log2(t.allowed(t.truth[i], i) * t.limit);
  }
  Scatter s;
  for (const auto& [magnitude, row] : bins)
    for (const auto& [error, bin] : row) {
      s.log2_magnitude.push_back(magnitude), s.log2_error.push_back(error);
      s.log2_allowed.push_back(bin.allowed / bin.count), s.count.push_back(bin.count);
    }
  return s;
}

}  // namespace

void compare_details(const Compared& t, TensorRecord& r) {
  std::vector<double> used(t.error.size());
  for (std::size_t i = 0; i < used.size(); ++i)
    used[i] = bound_used(t.error[i], t.allowed(t.truth[i], i));
  for (const std::size_t i : t.nonfinite) used[i] = std::numeric_limits<double>::infinity();
  worst_points(t, used, r);
  const std::vector<Axis> list = axes(t.spec.dims);
  for (const Axis& axis : list) r.profiles.push_back(profile(t, axis, used));
  for (std::size_t i = 0; i + 1 < list.size() && list[i + 1].period == 0; ++i)
    r.heatmaps.push_back(heatmap(list[i], list[i + 1], used));
  if (!t.exact) r.scatter = scatter(t);
  if (!t.base.empty()) {
    std::vector<std::byte> want(bytes_for(t.spec.dtype, r.elements)), got(want.size());
    narrow(t.spec.dtype, t.rounded, 0, want.data());
    narrow(t.spec.dtype, t.base, 0, got.data());
    const UlpHistogram h =
        pair_stats(t.spec.dtype, want.data(), got.data(), r.elements, 1).log2_ulp_histogram;
    r.ulp_histogram_base.assign(h.begin(), h.end());
  }
  for (const auto& [key, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}})
    r.quantiles[key] = at_quantile(used, q);
}

}  // namespace parity
