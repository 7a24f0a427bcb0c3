// The FP8 kernel around its inner loops: amaxes and scales of the tensor, of rows, columns and
// tiles, threads.
#pragma once

#include <string>
#include <vector>

#include "harness/kernel.hpp"
#include "kernels/fp8/steps.hpp"

namespace parity::fp8_kernel {

std::string refuses(const Case&, const Options&);
void forward(const Launch&, const Steps&);
std::vector<FaultDef> kernel_faults();

// A dense matrix in tiles of tile_rows x tile_columns, each with a scale: rows, columns and the
// tensor are tiles of whole extents.
struct Job {
  Dtype dtype = Dtype::F32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t tile_rows = 1;
  std::int64_t tile_columns = 1;
  int threads = 1;
  std::int64_t down() const { return (rows + tile_rows - 1) / tile_rows; }
  std::int64_t across() const { return (columns + tile_columns - 1) / tile_columns; }
};

// The rule that makes a scale of an amax.
struct Rule {
  double max = 448;
  double least = 1e-12;  // amax below it counts as this
  bool pow2 = false;
};
float scale_of(const Rule&, float amax);

// amaxes tile by tile, scales, codes. A tile of one row is read once; others are read twice.
void quantise_matrix(const Job&, const Steps&, const Plan&, const Rule&, const std::byte* x,
                     float* scales, std::uint8_t* codes);
// code / scale in `dtype`, which need not be that of the job.
void dequantise_matrix(const Job&, const Steps&, const Plan&, Dtype dtype, const float* scales,
                       const std::uint8_t* codes, std::byte* values);

}  // namespace parity::fp8_kernel
