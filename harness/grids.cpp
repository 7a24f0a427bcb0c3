#include "harness/grids.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

namespace parity {

std::vector<Dtype> coarser_grids(Dtype output) {
  std::vector<Dtype> list;
  if (!format(output).is_float) return list;
  for (const Dtype grid : {Dtype::E4M3, Dtype::BF16, Dtype::F16, Dtype::TF32, Dtype::F32})
    if (format(grid).mantissa_bits < format(output).mantissa_bits) list.push_back(grid);
  return list;
}

bool on_grid(Dtype grid, double value) {
  const Format& f = format(grid);
  const double magnitude = std::abs(value);
  if (!(magnitude <= f.max_finite)) return false;
  if (magnitude < f.min_normal) {
    const double steps = magnitude / f.min_subnormal;
    return steps == std::floor(steps);
  }
  const std::uint64_t below = (std::uint64_t{1} << (52 - f.mantissa_bits)) - 1;
  return (std::bit_cast<std::uint64_t>(value) & below) == 0;
}

GridShares grid_shares(std::span<const double> values, Dtype output) {
  const std::vector<Dtype> grids = coarser_grids(output);
  GridShares result{.share = std::vector<double>(grids.size())};
  if (grids.empty()) return result;
  // Every grid's values end in that many zero bits (f32's in the fewest), so most values are
  // dismissed by one test.
  int most = 0;
  for (const Dtype grid : grids) most = std::max(most, format(grid).mantissa_bits);
  const std::uint64_t below = (std::uint64_t{1} << (52 - most)) - 1;
  std::int64_t counted = 0;
  std::vector<std::int64_t> hits(grids.size());
  for (const double value : values) {
    if (value == 0 || !std::isfinite(value)) continue;
    ++counted;
    if ((std::bit_cast<std::uint64_t>(value) & below) != 0) continue;
    for (std::size_t g = 0; g < grids.size(); ++g) hits[g] += on_grid(grids[g], value) ? 1 : 0;
  }
  result.counted = static_cast<double>(counted);
  for (std::size_t g = 0; g < grids.size(); ++g)
    result.share[g] = counted > 0 ? static_cast<double>(hits[g]) / result.counted : 0;
  return result;
}

std::vector<double> telling_values(std::span<const double> values, std::span<const double> truth) {
  std::vector<double> telling;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::abs(values[i] - truth[i]) <= std::abs(truth[i]) / 8) telling.push_back(values[i]);
  return telling;
}

double grid_chance(Dtype grid, Dtype output) {
  return std::ldexp(1.0, format(grid).mantissa_bits - format(output).mantissa_bits);
}

}  // namespace parity
