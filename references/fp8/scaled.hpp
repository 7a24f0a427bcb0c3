// What the FP8 quantisers share: groups of elements (the tensor, a row, a column, a tile) under one
// f32 scale, casts with and without saturation, and their defects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "references/quantize/answer.hpp"
#include "references/quantize/nvfp4.hpp"

namespace parity::fp8 {

using quantize::Answer;
using quantize::columns_of;
using quantize::Matrix;
using quantize::matrix_spec;
using quantize::row_spec;
using quantize::rows_of;

enum class Defect : std::uint8_t {
  None,
  FloorMissing,       // amax 0 divides: an infinite scale, 0 inf = NaN
  FloorNarrow,        // the least amax rounded to bf16, or left out
  ScaleTwice,         // the scale as the reciprocal of its rounded inverse
  ScaleWide,          // scale not rounded to the input dtype
  MaxOfE4m3,          // 448 where the format is e5m2
  PowerUp,            // power-of-two scale by the ceiling
  PowerMissing,       // scale not rounded to a power of two
  OtherAxis,          // scales of the other axis
  DequantMultiplied,  // q times the rounded inverse in place of q / scale, or the reverse
  CastSaturates,      // or does not, where the chain does not, or does
  ScaleUpdated,       // quantised with the scale that this step's amax gives
  MarginMissing,
  HistoryKept,       // the oldest amax stays
  GradientStraight,  // the cotangent of the codes not rounded to e4m3
  GradientDetached,  // no gradient through the scale
  AmaxInBf16,
  AmaxDropsNan,
  AmaxSigned,
  HalfAway,
  DoubleRounding,
  ShiftWraps,
  ImplicitOne,
};
Defect defect_of(std::string_view fault);
std::vector<FaultDef> faults_of(const std::vector<Defect>&);

struct Format8 {
  Dtype dtype = Dtype::E4M3;
  float max = 448;
};
Format8 format_of(const Case&);  // option elem, "e4m3" or "e5m2"
// Why the options are unknown; "" = they are not.
std::string refuses_format(const Case&);
std::string element_name(const std::string& torch_name);  // "float8_e4m3fn" -> "e4m3"

std::uint8_t cast(const Format8&, float y, Overflow, Defect);
float value_of(const Format8&, std::uint8_t code, Defect);

// One rounding to the input dtype.
float rounded(Dtype, float);

// The group of each element: tiles of tile_rows x tile_columns, row by row of tiles. Whole extents
// make rows, columns and the tensor.
struct Groups {
  std::int64_t rows = 1, columns = 1;            // of the matrix
  std::int64_t tile_rows = 1, tile_columns = 1;  // the last tile may be short
  std::int64_t down() const { return (rows + tile_rows - 1) / tile_rows; }
  std::int64_t across() const { return (columns + tile_columns - 1) / tile_columns; }
  std::int64_t count() const { return down() * across(); }
  std::size_t of(std::int64_t flat) const {
    return static_cast<std::size_t>(flat / columns / tile_rows * across() +
                                    flat % columns / tile_columns);
  }
};
// By the option `granularity`: "tensor", "row", "column".
Groups groups_of(const Case&, const Matrix&, Defect = Defect::None);

// max |x| of every group; a NaN wins.
std::vector<float> maxima(const Matrix&, const Groups&, Defect);

// The largest power of two that is no larger, by log2f: it can round up to the next integer.
float floor_power(float scale, Defect);

}  // namespace parity::fp8
