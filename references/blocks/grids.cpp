#include "references/blocks/grids.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "harness/dtype.hpp"
#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::net {
namespace {

constexpr double kTemporalTheta = 1e4;

std::int64_t extent(const std::string& text, const std::string& grid) {
  const std::int64_t value = to_integer(text, "an extent of grid " + grid);
  if (value < 1) throw UsageError("an extent of grid " + grid + " is less than one");
  return value;
}

// Convolution weights of Keys 1981 at distances 1+f, f, 1-f, 2-f.
template <class T>
std::vector<T> cubic(T f) {
  constexpr T a = -0.75;
  const auto near = [](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(1 + f), near(f), near(1 - f), far(2 - f)};
}

}  // namespace

std::vector<Grid> parse_grids(std::string_view text) {
  std::vector<Grid> grids;
  for (const std::string& part : split(text, '+')) {
    const std::vector<std::string> axes = split(part, 'x');
    if (axes.size() != 3)
      throw UsageError(fmt::format("a grid is frames x rows x columns, not '{}'", part));
    grids.push_back({extent(axes[0], part), extent(axes[1], part), extent(axes[2], part)});
  }
  if (grids.empty()) throw UsageError("no grids: frames x rows x columns, joined by +");
  return grids;
}

std::string print_grids(const std::vector<Grid>& grids) {
  std::string text;
  for (const Grid& g : grids)
    text += fmt::format("{}{}x{}x{}", text.empty() ? "" : "+", g.t, g.h, g.w);
  return text;
}

std::int64_t patches(const std::vector<Grid>& grids) {
  std::int64_t sum = 0;
  for (const Grid& g : grids) sum += g.patches();
  return sum;
}

std::vector<std::int64_t> patches_by_item(const std::vector<Grid>& grids) {
  std::vector<std::int64_t> counts;
  for (const Grid& g : grids) counts.push_back(g.patches());
  return counts;
}

std::vector<Place> places(const std::vector<Grid>& grids) {
  std::vector<Place> all;
  for (std::size_t item = 0; item < grids.size(); ++item)
    for (std::int64_t p = 0; p < grids[item].patches(); ++p) {
      const auto [t, h, w] = grids[item];
      all.push_back({static_cast<std::int64_t>(item), p / (h * w), p / w % h, p % w});
    }
  return all;
}

template <class T>
Array<T> pad_items(const Array<T>& flat, const std::vector<std::int64_t>& counts, T padding) {
  const std::int64_t most = counts.empty() ? 0 : *std::ranges::max_element(counts);
  const std::int64_t width = flat.shape[0] == 0 ? flat.width() : flat.count() / flat.shape[0];
  Array<T> y({static_cast<std::int64_t>(counts.size()), most, width});
  std::ranges::fill(y.data, padding);
  auto from = flat.data.begin();
  auto item = y.data.begin();
  for (const std::int64_t n : counts) {
    std::copy_n(from, n * width, item);
    from += n * width;
    item += most * width;
  }
  return y;
}

template <class T>
Array<T> unpad_items(const Array<T>& padded, const std::vector<std::int64_t>& counts) {
  const std::int64_t most = padded.shape[1], width = padded.width();
  std::int64_t rows = 0;
  for (const std::int64_t n : counts) rows += n;
  Array<T> y({rows, width});
  auto to = y.data.begin();
  auto item = padded.data.begin();
  for (const std::int64_t n : counts) {
    to = std::copy_n(item, n * width, to);
    item += most * width;
  }
  return y;
}

template <class T>
Taps<T> table_taps(Interpolation kind, std::int64_t d, std::int64_t n, std::int64_t M,
                   bool align_corners) {
  T at = (static_cast<T>(d) + T{0.5}) * (static_cast<T>(M) / static_cast<T>(n)) - T{0.5};
  if (align_corners) at = n > 1 ? static_cast<T>(d * (M - 1)) / static_cast<T>(n - 1) : T{0};
  if (kind == Interpolation::Bilinear) at = std::max(at, T{0});
  const auto low = static_cast<std::int64_t>(std::floor(at));
  const T f = at - static_cast<T>(low);
  if (kind == Interpolation::Bilinear)
    return {{std::min(low, M - 1), std::min(low + 1, M - 1)}, {1 - f, f}};
  Taps<T> taps{{}, cubic(f)};
  for (std::int64_t k = -1; k <= 2; ++k)
    taps.index.push_back(std::clamp<std::int64_t>(low + k, 0, M - 1));
  return taps;
}

namespace {

// Calls visit(patch, table row, weight) for all that a patch reads.
template <class T, class Visit>
void for_reads(Run<T>& run, const Array<T>& table, const std::vector<Grid>& grids,
               Interpolation kind, const Visit& visit) {
  const std::int64_t M = table.shape[0], N = table.shape[1];
  const bool corners = run.fault("P-vit-align-corners");
  if (run.fault("P-vit-bicubic")) kind = Interpolation::Bicubic;
  std::int64_t patch = 0;
  for (const Place& at : places(grids)) {
    const Grid& g = grids[static_cast<std::size_t>(at.item)];
    const Taps<T> rows = table_taps<T>(kind, at.row, g.h, M, corners),
                  cols = table_taps<T>(kind, at.col, g.w, N, corners);
    for (std::size_t i = 0; i < rows.index.size(); ++i)
      for (std::size_t j = 0; j < cols.index.size(); ++j)
        visit(patch, rows.index[i] * N + cols.index[j], rows.weight[i] * cols.weight[j]);
    ++patch;
  }
}

}  // namespace

template <class T>
Array<T> positions(Run<T>& run, const Array<T>& table, const std::vector<Grid>& grids,
                   Interpolation kind) {
  const std::int64_t D = table.shape[2], half = D / 2;
  const Array<T> rows = table.as({table.shape[0] * table.shape[1], D});
  Array<T> y({patches(grids), D});
  for_reads<T>(run, table, grids, kind, [&](std::int64_t patch, std::int64_t from, T weight) {
    const std::span<const T> row = rows.row(from);
    for (std::int64_t d = 0; d < D; ++d)
      y[patch * D + d] += weight * row[static_cast<std::size_t>(d)];
  });
  std::int64_t patch = 0;
  for (const Place& at : places(grids)) {
    const std::int64_t p = patch++;
    const bool one = grids[static_cast<std::size_t>(at.item)].t == 1;
    if ((one && !run.fault("P-vit-frame-zero")) || run.fault("P-vit-no-temporal")) continue;
    for (std::int64_t i = 0; i < half; ++i) {
      const double step = -static_cast<double>(i) / static_cast<double>(half);
      const T angle = static_cast<T>(at.t) * static_cast<T>(std::pow(kTemporalTheta, step));
      const bool swapped = run.fault("P-vit-temporal-cos-first");
      y[p * D + i] += swapped ? std::cos(angle) : std::sin(angle);
      y[p * D + half + i] += swapped ? std::sin(angle) : std::cos(angle);
    }
  }
  run.store(y);
  return y;
}

template <class T>
Array<T> positions_backward(Run<T>& run, const Array<T>& table, const Array<T>& dy,
                            const std::vector<Grid>& grids, Interpolation kind) {
  const std::int64_t D = table.shape[2], rows = table.shape[0] * table.shape[1];
  std::vector<std::vector<std::pair<std::int64_t, T>>> readers(static_cast<std::size_t>(rows));
  for_reads<T>(run, table, grids, kind, [&](std::int64_t patch, std::int64_t from, T weight) {
    readers[static_cast<std::size_t>(from)].emplace_back(patch, weight);
  });
  Array<T> d(table.shape);
  std::vector<T> terms;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < D; ++i) {
      terms.clear();
      for (const auto& [patch, weight] : readers[static_cast<std::size_t>(r)])
        terms.push_back(weight * dy[patch * D + i]);
      d[r * D + i] = run.sum(terms);
    }
  run.store(d);
  return d;
}

template <class T>
Array<T> rope_cos_sin(Run<T>& run, const std::vector<Place>& at, std::int64_t D,
                      const GridRope& rope) {
  const std::int64_t pairs = D / 2, quarter = D / 4;
  Array<T> result({static_cast<std::int64_t>(at.size()), pairs, 2});
  const bool concatenated = run.fault("P-vit-rope-concat");
  for (std::size_t n = 0; n < at.size(); ++n)
    for (std::int64_t j = 0; j < pairs; ++j) {
      const std::int64_t i = concatenated ? j % quarter : j / 2;
      bool column = concatenated ? j < quarter : j % 2 == 0;
      if (run.fault("P-vit-rope-rows-first")) column = !column;
      const double step = -4 * static_cast<double>(i) / static_cast<double>(D);
      T angle = static_cast<T>(column ? at[n].col : at[n].row) *
                static_cast<T>(std::pow(rope.theta, step));
      if (run.fault("P-vit-no-rope")) angle = 0;
      T pair[2] = {std::cos(angle), std::sin(angle)};
      if (run.fault("A-NR05"))
        for (T& x : pair) x = static_cast<T>(round_to(Dtype::BF16, static_cast<double>(x)));
      const std::int64_t first = (static_cast<std::int64_t>(n) * pairs + j) * 2;
      result[first] = pair[0];
      result[first + 1] = pair[1];
    }
  return result;
}

template <class T>
void rotate(Run<T>& run, Array<T>& x, const Array<T>& cos_sin, const GridRope& rope, bool back) {
  const std::int64_t N = x.shape[0], H = x.shape[1], D = x.shape[2], pairs = D / 2;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t j = 0; j < pairs; ++j) {
        T* head = x.data.data() + (n * H + h) * D;
        T &a = rope.halves ? head[j] : head[2 * j],
          &b = rope.halves ? head[j + pairs] : head[2 * j + 1];
        const T c = cos_sin[(n * pairs + j) * 2], sine = cos_sin[(n * pairs + j) * 2 + 1];
        const T s = back ? -sine : sine, x0 = a, x1 = b;
        a = x0 * c - x1 * s;
        b = x0 * s + x1 * c;
      }
  run.store(x);
}

#define PARITY_INSTANTIATE(T)                                                                     \
  template Array<T> pad_items(const Array<T>&, const std::vector<std::int64_t>&, T);              \
  template Array<T> unpad_items(const Array<T>&, const std::vector<std::int64_t>&);               \
  template Taps<T> table_taps(Interpolation, std::int64_t, std::int64_t, std::int64_t, bool);     \
  template Array<T> positions(Run<T>&, const Array<T>&, const std::vector<Grid>&, Interpolation); \
  template Array<T> positions_backward(Run<T>&, const Array<T>&, const Array<T>&,                 \
                                       const std::vector<Grid>&, Interpolation);                  \
  template Array<T> rope_cos_sin(Run<T>&, const std::vector<Place>&, std::int64_t,                \
                                 const GridRope&);                                                \
  template void rotate(Run<T>&, Array<T>&, const Array<T>&, const GridRope&, bool);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
