// A matrix by ranges of rows, one range a thread; amaxes of tiles that ranges share are reduced in
// the order of the ranges, as integers, so threads never show.
#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "kernels/fp8/frame.hpp"
#include "kernels/quantize/ranges.hpp"

namespace parity::fp8_kernel {
namespace {

std::int64_t size_of(Dtype dtype) { return dtype == Dtype::BF16 ? 2 : 4; }

// One row of x into the amaxes of the tiles that it crosses.
void row_amaxes(const Job& job, const Steps& steps, const Plan& plan, const std::byte* row,
                std::uint32_t* largest) {
  if (job.tile_columns == 1) {
    steps.amax_by_element(plan, job.dtype, row, job.columns, largest);
    return;
  }
  for (std::int64_t t = 0; t < job.across(); ++t) {
    const std::int64_t first = t * job.tile_columns;
    const std::int64_t n = std::min(job.tile_columns, job.columns - first);
    largest[t] =
        std::max(largest[t], steps.amax(plan, job.dtype, row + first * size_of(job.dtype), n));
  }
}

// A row's codes by the scales of its tiles.
template <class Tile>
void over_tiles(const Job& job, const Tile& tile) {
  if (job.tile_columns == 1) return tile(0, 0, job.columns);
  for (std::int64_t t = 0; t < job.across(); ++t) {
    const std::int64_t first = t * job.tile_columns;
    tile(t, first, std::min(job.tile_columns, job.columns - first));
  }
}

void scales_of(const Rule& rule, std::span<const std::uint32_t> largest, float* scales) {
  for (std::size_t i = 0; i < largest.size(); ++i)
    scales[i] = scale_of(rule, std::bit_cast<float>(largest[i]));
}

// The amaxes of all tiles where a tile has several rows.
std::vector<std::uint32_t> tall_amaxes(const Job& job, const Steps& steps, const Plan& plan,
                                       const std::byte* x) {
  const std::int64_t across = job.across();
  const std::int64_t stride = job.columns * size_of(job.dtype);
  const auto tiles = static_cast<std::size_t>(job.down() * across);
  const std::int64_t threads = std::max(1, useful_threads(job.threads, job.rows * job.columns));
  const std::int64_t grain = std::max<std::int64_t>((job.rows + threads - 1) / threads, 1);
  std::vector<std::vector<std::uint32_t>> part(
      static_cast<std::size_t>(std::max<std::int64_t>((job.rows + grain - 1) / grain, 1)),
      std::vector<std::uint32_t>(tiles, 0));
  in_ranges(static_cast<int>(threads), job.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t>& largest = part[static_cast<std::size_t>(begin / grain)];
    for (std::int64_t r = begin; r < end; ++r)
      row_amaxes(job, steps, plan, x + r * stride, largest.data() + r / job.tile_rows * across);
  });
  for (std::size_t p = 1; p < part.size(); ++p)
    for (std::size_t t = 0; t < tiles; ++t) part[0][t] = std::max(part[0][t], part[p][t]);
  return part[0];
}

}  // namespace

float scale_of(const Rule& rule, float amax) {
  const auto wide = static_cast<double>(amax);
  const auto scale = static_cast<float>(rule.max / (wide < rule.least ? rule.least : wide));
  if (!rule.pow2) return scale;
  const auto log = static_cast<float>(std::log2(static_cast<double>(scale)));
  return std::exp2(std::floor(log));
}

void quantise_matrix(const Job& job, const Steps& steps, const Plan& plan, const Rule& rule,
                     const std::byte* x, float* scales, std::uint8_t* codes) {
  const std::int64_t across = job.across();
  const std::int64_t stride = job.columns * size_of(job.dtype);
  const bool tall = job.tile_rows > 1;
  if (tall) scales_of(rule, tall_amaxes(job, steps, plan, x), scales);
  Plan by = plan;
  by.by_element = job.tile_columns == 1;
  in_ranges(useful_threads(job.threads, job.rows * job.columns), job.rows, 1,
            [&](std::int64_t begin, std::int64_t end) {
              std::vector<std::uint32_t> largest(static_cast<std::size_t>(across));
              for (std::int64_t r = begin; r < end; ++r) {
                const std::byte* row = x + r * stride;
                float* scale = scales + r / job.tile_rows * across;
                if (!tall) {
                  std::ranges::fill(largest, 0U);
                  row_amaxes(job, steps, plan, row, largest.data());
                  scales_of(rule, largest, scale);
                }
                over_tiles(job, [&](std::int64_t t, std::int64_t first, std::int64_t n) {
                  steps.quantise(by, job.dtype, row + first * size_of(job.dtype), n, scale + t,
                                 codes + r * job.columns + first);
                });
              }
            });
}

void dequantise_matrix(const Job& job, const Steps& steps, const Plan& plan, Dtype dtype,
                       const float* scales, const std::uint8_t* codes, std::byte* values) {
  Plan by = plan;
  by.by_element = job.tile_columns == 1;
  in_ranges(useful_threads(job.threads, job.rows * job.columns), job.rows, 1,
            [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t r = begin; r < end; ++r)
                over_tiles(job, [&](std::int64_t t, std::int64_t first, std::int64_t n) {
                  const std::int64_t at = r * job.columns + first;
                  steps.dequantise(by, dtype, codes + at, n,
                                   scales + r / job.tile_rows * job.across() + t,
                                   values + at * size_of(dtype));
                });
            });
}

}  // namespace parity::fp8_kernel
