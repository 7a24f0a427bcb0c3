// torchao's references of 128-block FP8 training: e4m3 under one scale a tile, 1x128
// (function=lhs), 128x1 (rhs) or 128x128 (weight).
//
//   s    = f32(448 / max(double(amax), 1e-12)); rhs: f32(448 / double(max(amax, R(1e-12))))
//   code = e4m3(clamp(fl(x s), -448, 448))      inverse_scale = fl(1 / s)
//
//   source   torchao 0.18.0, prototype/blockwise_fp8_training/kernels.py, torch_blockwise_scale_*
#include <algorithm>
#include <cmath>

#include "references/fp8/scaled.hpp"

namespace parity::fp8 {
namespace {

constexpr double kLeastAmax = 1e-12;

std::string function_of(const Case& c) { return c.options.get("function", "lhs"); }
std::int64_t block_of(const Case& c) { return c.options.integer("block", 128); }

Groups tiles(const Case& c, Defect defect = Defect::None) {
  Groups g{.rows = rows_of(c), .columns = columns_of(c)};
  const std::string function = function_of(c);
  const bool other = defect == Defect::OtherAxis;
  if (function != (other ? "rhs" : "lhs")) g.tile_rows = block_of(c);
  if (function != (other ? "lhs" : "rhs")) g.tile_columns = block_of(c);
  return g;
}

std::vector<TensorSpec> outputs_of(const Case& c) {
  const Groups g = tiles(c);
  TensorSpec inverse =
      matrix_spec("inverse_scale", Role::Output, Dtype::F32, g.down(), g.across(), "KB");
  inverse.dims.front().name = "MB";
  return {matrix_spec("codes", Role::Codes, Dtype::E4M3, g.rows, g.columns, "K"), inverse};
}

std::string refuses(const Case& c) {
  const std::string function = function_of(c);
  if (function != "lhs" && function != "rhs" && function != "weight")
    return "no operand '" + function + "'";
  const Groups g = tiles(c);
  if (g.rows % g.tile_rows != 0 || g.columns % g.tile_columns != 0)
    return "the matrix is no multiple of its tiles";
  return "";
}

float scale_of(const Case& c, float amax, Defect defect) {
  double divisor = static_cast<double>(amax);
  double least = kLeastAmax;
  if (function_of(c) == "rhs") least = round_to(c.dtype, kLeastAmax);
  if (defect == Defect::FloorNarrow)
    least = function_of(c) == "rhs" ? kLeastAmax : round_to(Dtype::BF16, kLeastAmax);
  if (defect != Defect::FloorMissing) divisor = divisor < least ? least : divisor;  // a NaN stays
  if (defect == Defect::ScaleTwice) return 1 / static_cast<float>(divisor / 448.0);
  return static_cast<float>(448.0 / divisor);
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses(c); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  constexpr Format8 kE4m3{};
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  const Groups groups = tiles(c);
  std::vector<float> scales, inverse;
  for (const float amax : maxima(x, groups, defect)) {
    scales.push_back(scale_of(c, amax, defect));
    inverse.push_back(1 / scales.back());
  }
  const Groups used = tiles(c, defect);
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < std::ssize(x.values); ++i) {
    const float y = x.values[static_cast<std::size_t>(i)] * scales[used.of(i) % scales.size()];
    codes.push_back(cast(kE4m3, std::isnan(y) ? y : std::clamp(y, -448.0F, 448.0F),
                         Overflow::Saturate, defect));
  }
  Answer answer(outputs_of(c));
  answer.codes("codes", codes);
  answer.values("inverse_scale", inverse);
  return answer.take();
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Options& options = imported.problem.options;
  const std::string function = quantize::attribute_of(stored, "function");
  options.set("function", function.ends_with("_lhs")   ? "lhs"
                          : function.ends_with("_rhs") ? "rhs"
                                                       : "weight");
  if (const std::string block = quantize::attribute_of(stored, "block_size");
      !block.empty() && block != "128")
    options.set("block", block);
}

const Register chain{ChainDef{
    .name = "fp8_torchao_blockwise",
    .what = "s = f32(448 / max(amax, 1e-12)) of 1x128, 128x1 or 128x128; code = e4m3(clamp(x s))",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"fp8_torchao_blockwise"},
    .faults = faults_of({Defect::FloorMissing, Defect::FloorNarrow, Defect::ScaleTwice,
                         Defect::OtherAxis, Defect::AmaxDropsNan, Defect::AmaxSigned,
                         Defect::HalfAway, Defect::DoubleRounding}),
    .import = import,
}};

}  // namespace
}  // namespace parity::fp8
