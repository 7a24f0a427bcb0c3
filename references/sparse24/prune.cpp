#include "references/sparse24/prune.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace parity::sparse24 {
namespace {

constexpr std::size_t kGroup = 4;

// Ascending by `key`, stable; the two last are kept.
void keep_largest(std::span<const float> key, std::size_t first, Defect defect, Mask& mask) {
  std::array<std::size_t, kGroup> order = {0, 1, 2, 3};
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return key[i]; });
  if (defect == Defect::TiesLow)
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return key[a] != key[b] ? key[a] < key[b] : a > b;
    });
  const std::size_t zeroed = defect == Defect::KeepsThree ? 1 : 2;
  for (std::size_t i = zeroed; i < kGroup; ++i) mask.kept[first + order[i]] = 1;
}

void by_groups(std::span<const double> x, Rule rule, Defect defect, Mask& mask) {
  for (std::size_t first = 0; first < x.size(); first += kGroup) {
    std::array<float, kGroup> key = {};
    for (std::size_t i = 0; i < kGroup; ++i) {
      const auto v = static_cast<float>(x[first + i]);
      key[i] = rule == Rule::WeightNorm ? v * v : std::fabs(v);
      if (defect == Defect::OtherOrder) key[i] = v;
    }
    keep_largest(key, first, defect, mask);
    if (rule != Rule::WeightNorm || defect == Defect::OtherOrder) continue;
    std::array<float, kGroup> sorted = key;
    std::ranges::sort(sorted);
    if (sorted[1] != sorted[2]) continue;
    for (std::size_t i = 0; i < kGroup; ++i)
      if (key[i] == sorted[1]) mask.open[first + i] = 1;
  }
}

void by_tile(std::span<const double> x, std::int64_t columns, std::int64_t first, Defect defect,
             Mask& mask) {
  const auto at = [&](std::size_t i) {
    return static_cast<std::size_t>(first + static_cast<std::int64_t>(i / kGroup) * columns) +
           i % kGroup;
  };
  std::array<std::size_t, kGroup* kGroup> order = {};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    double u = x[at(a)], v = x[at(b)];
    if (defect == Defect::OtherOrder) u = std::fabs(u), v = std::fabs(v);
    if (u == v && defect == Defect::TiesLow) return a > b;
    return u > v;
  });
  const int most = defect == Defect::KeepsThree ? 3 : 2;
  std::array<int, kGroup> in_row = {}, in_column = {};
  for (const std::size_t i : order) {
    if (in_row[i / kGroup] >= most || in_column[i % kGroup] >= most) continue;
    ++in_row[i / kGroup], ++in_column[i % kGroup];
    mask.kept[at(i)] = 1;
  }
}

}  // namespace

Mask prune(const Tensor& x, Rule rule, Defect defect) {
  const std::vector<double> values = x.widened();
  Mask mask{.kept = std::vector<std::uint8_t>(values.size()),
            .open = std::vector<std::uint8_t>(values.size())};
  if (rule != Rule::Tile) {
    by_groups(values, rule, defect, mask);
    return mask;
  }
  const std::int64_t rows = x.spec.dims.at(0).extent, columns = x.spec.dims.at(1).extent;
  for (std::int64_t r = 0; r < rows; r += 4)
    for (std::int64_t c = 0; c < columns; c += 4)
      by_tile(values, columns, r * columns + c, defect, mask);
  return mask;
}

}  // namespace parity::sparse24
