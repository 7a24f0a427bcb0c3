#include "references/chains/chain_a.hpp"

#include <cmath>
#include <limits>

#include "references/quantize/layout.hpp"
#include "references/quantize/rht.hpp"
#include "references/quantize/stochastic.hpp"

namespace parity::quantize {
namespace {

constexpr float kFltMax = std::numeric_limits<float>::max();
constexpr float kSixth = 1.0F / 6.0F;  // 0x3E2AAAAB
constexpr float kPer2688 = 1.0F / 2688.0F;
constexpr float kBf16Max = 0x1.FEp127F;

float to_bf16(float x) { return float_from_bf16(bf16_from_float(x)); }

}  // namespace

ChainA::ChainA(float tensor_amax, Defect d, float top) : amax(tensor_amax), defect(d) {
  const float bound = d == Defect::AmaxWithoutSix ? top : top * kMaxE2m1;
  if (d == Defect::ZeroGuardMissing) {
    encode = bound / amax;
  } else {
    encode = min_nan(bound / amax, kFltMax);
    if (amax == 0 || encode == 0) encode = 1;  // the second: amax is inf
  }
  if (d == Defect::InverseGlobal) encode = 1 / encode;
  decode = 1 / encode;
}

BlockScale ChainA::block(float block_amax) const {
  const bool two = form == FormA::TwoRoundings || defect == Defect::SixInverted;
  float scale = two ? block_amax / kMaxE2m1 * encode : block_amax * (encode * kSixth);
  if (form == FormA::TwoRoundings && defect == Defect::SixInverted)
    scale = block_amax * (encode * kSixth);
  const bool floor = (form == FormA::TwoRoundings) !=
                     (defect == Defect::FloorAdded || defect == Defect::FloorMissing);
  return of_scale(floor ? max_nan(scale, kMinNormalE4m3) : scale);
}

BlockScale ChainA::of_scale(float scale) const {
  BlockScale block;
  block.code = scale_code(scale, defect);
  const float kept =
      defect == Defect::ExactScale ? min_nan(scale, kMaxE4m3) : scale_value(block.code, defect);
  if (form == FormA::Bf16Factor) {
    const float factor = min_nan(encode / kept, kBf16Max);
    block.encode = defect == Defect::RoundingsMissing ? factor : to_bf16(factor);
    return block;
  }
  block.encode = min_nan(1 / (kept * decode), kFltMax);
  if (defect == Defect::ReciprocalOrder) block.encode = min_nan(encode / kept, kFltMax);
  return block;
}

float ChainA::value(float code, float scale) const {
  if (defect == Defect::DequantOrder) return code * scale * amax * kPer2688;
  if (defect == Defect::InverseGlobal) return code * (scale / amax);
  return code * (scale * amax * kPer2688);
}

// ---- which tensor scale belongs to which block
// -------------------------------------------------------------------------------------------------

std::vector<std::int64_t> groups_of(const Case& c) {
  const Size* rows = c.sizes.find("M");
  return rows == nullptr ? std::vector<std::int64_t>{} : rows->parts;
}

namespace {

// Tensor scales of one copy: one in all, or one a row, or one a group of x's rows.
struct Scales {
  std::vector<ChainA> list = {};
  std::vector<float> amaxes = {};
  bool by_row = false;
  bool groups_are_columns = false;
  std::vector<std::int64_t> ends = {};  // of the groups

  const ChainA& at(const Place& place) const {
    if (list.size() == 1) return list.front();
    if (by_row) return list[static_cast<std::size_t>(place.row)];
    const std::int64_t along = groups_are_columns ? place.column : place.row;
    std::size_t g = 0;
    while (along >= ends[g]) ++g;
    return list[g];
  }
};

// Largest |x| of rows [r0, r1) x columns [c0, c1).
float amax_within(const Matrix& x, std::int64_t r0, std::int64_t r1, std::int64_t c0,
                  std::int64_t c1, Defect defect) {
  float max = 0;
  for (std::int64_t r = r0; r < r1; ++r) {
    const float own = amax(std::span(x.values).subspan(static_cast<std::size_t>(r * x.columns + c0),
                                                       static_cast<std::size_t>(c1 - c0)),
                           defect);
    max = defect == Defect::AmaxDropsNan ? std::fmax(max, own) : max_nan(max, own);
  }
  return max;
}

Scales scales_of(const Case& c, const Matrix& x, bool groups_are_columns, FormA form,
                 Defect defect) {
  Scales s{.groups_are_columns = groups_are_columns};
  const auto add = [&](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
    ChainA a(amax_within(x, r0, r1, c0, c1, defect) *
                 static_cast<float>(c.options.real("amax_factor", 1.0)),
             defect);
    a.form = form;
    s.amaxes.push_back(a.amax);
    s.list.push_back(a);
  };
  const std::vector<std::int64_t> groups = groups_of(c);
  const bool whole = defect == Defect::OneAmaxForAll;
  if (c.options.flag("row_scaled")) {
    s.by_row = true;
    for (std::int64_t r = 0; r < x.rows; ++r)
      add(whole ? 0 : r, whole ? x.rows : r + 1, 0, x.columns);
  } else if (groups.empty()) {
    add(0, x.rows, 0, x.columns);
  }
  std::int64_t first = 0;
  for (const std::int64_t length : groups) {
    const std::int64_t from = whole ? 0 : first;
    const std::int64_t end = first + length;
    const std::int64_t to = whole ? (groups_are_columns ? x.columns : x.rows) : end;
    groups_are_columns ? add(0, x.rows, from, to) : add(from, to, 0, x.columns);
    s.ends.push_back(end);
    first = end;
  }
  return s;
}

}  // namespace

Result run_chain_a(const Case& c, const Tensors& inputs, const E2m1Policy& policy, FormA form,
                   Defect defect) {
  const Matrix x = matrix_of(inputs.at("x"));
  Result result;
  const auto chain_of = [&](const Scales& scales, std::string_view bits) {
    Chain chain{
        .scale = [&](float block_amax, const Place& at) { return scales.at(at).block(block_amax); },
        .tile = c.options.integer("tile", 1),
        .policy = policy,
        .defect = defect};
    if (c.options.flag("sr")) chain.code = stochastic_code(inputs, bits, defect);
    return chain;
  };
  const Scales rows = scales_of(c, x, false, form, defect);
  result.rows = quantise(x, chain_of(rows, "rbits"));
  result.dequant = dequantised(result.rows, [&](float code, float scale, const Place& at) {
    return rows.at(at).value(code, scale);
  });
  std::vector<float> encodes;
  for (const ChainA& a : rows.list) encodes.push_back(a.encode);
  result.values = {{"amax", rows.amaxes},
                   {"tensor_amax", rows.amaxes},
                   {"amax_row", rows.amaxes},
                   {"amax_col", rows.amaxes},
                   {"tensor_scale", encodes}};
  const bool transform = c.options.flag("rht");
  if (!transform && !c.options.flag("transpose")) return result;

  Matrix turned = transposed(x);
  Scales columns = scales_of(c, turned, true, form, defect);
  if (transform) {
    const Matrix made = rht(turned, signs_of(inputs.at("signs")), c.dtype, defect);
    result.values["rht_t"] = made.values;
    if (c.dtype == Dtype::F32) result.magnitudes["rht_t"] = rht_magnitudes(turned);
    turned = made;
    if (const Tensor* given = inputs.find("rht_given")) turned = matrix_of(*given);
    if (defect != Defect::RhtAmaxBefore) columns = scales_of(c, turned, true, form, defect);
  }
  result.values["amax_col"] = columns.amaxes;
  result.columns =
      quantise(turned, chain_of(columns, defect == Defect::StochasticShared ? "rbits" : "rbits_t"));
  result.groups = groups_of(c);
  return result;
}

// ---- tensors of a case
// -------------------------------------------------------------------------------------------------

std::vector<TensorSpec> chain_a_inputs(const Case& c) {
  std::vector<TensorSpec> specs = plain_inputs(c);
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  std::vector<TensorSpec> more;
  if (c.options.flag("rht")) {
    more.push_back(vector_spec("signs", 16));
    if (c.dtype == Dtype::F32) more.push_back(values_spec("rht_given", Dtype::F32, columns, rows));
  }
  if (c.options.flag("sr")) {
    more.push_back(values_spec("rbits", Dtype::U8, rows, columns));
    if (c.options.flag("rht") || c.options.flag("transpose"))
      more.push_back(values_spec("rbits_t", Dtype::U8, columns, rows));
  }
  for (TensorSpec& spec : more) spec.role = Role::Input;
  specs.insert(specs.begin() + 1, more.begin(), more.end());  // the cotangent stays last
  return specs;
}

std::vector<TensorSpec> chain_a_outputs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  const std::int64_t tile = c.options.integer("tile", 1);
  const bool by_row = c.options.flag("row_scaled");
  const bool both = c.options.flag("transpose") || c.options.flag("rht");
  const auto groups = std::max<std::int64_t>(1, std::ssize(groups_of(c)));
  std::vector<TensorSpec> specs = {
      codes_spec("codes", rows, columns),
      scales_spec("scales", (rows + tile - 1) / tile * tile, columns),
      vector_spec("amax_row", by_row ? rows : groups),
      vector_spec("amax_col", by_row ? (both ? columns : rows) : groups)};
  for (TensorSpec& spec : transposed_specs(c)) specs.push_back(std::move(spec));
  for (TensorSpec& spec : optional_specs(c)) specs.push_back(std::move(spec));
  return traced_or(c, std::move(specs));
}

std::vector<TensorSpec> transposed_specs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  const bool transform = c.options.flag("rht");
  if (!transform && !c.options.flag("transpose")) return {};
  std::vector<TensorSpec> specs = {codes_spec("codes_t", columns, rows)};
  const std::int64_t tile = c.options.integer("tile", 1);
  const std::vector<std::int64_t> groups = groups_of(c);
  if (groups.empty())
    specs.push_back(scales_spec("scales_t", (columns + tile - 1) / tile * tile, rows));
  if (c.options.flag("swizzle")) {
    std::int64_t bytes = groups.empty() ? swizzled_bytes(columns, blocks_of(rows)) : 0;
    for (const std::int64_t length : groups) bytes += swizzled_bytes(columns, blocks_of(length));
    specs.push_back(swizzled_spec("scales_swizzled_t", bytes));
  }
  if (transform && groups.empty()) specs.push_back(values_spec("rht_t", c.dtype, columns, rows));
  return specs;
}

std::string chain_a_refuses(const Case& c, bool padded) {
  const std::int64_t tile = c.options.integer("tile", 1);
  if (tile != 1 && tile != 16) return "a scale is that of 1x16 or of 16x16 elements";
  if (tile == 16 && (c.options.flag("rht") || c.options.flag("row_scaled")))
    return "16x16 tiles go with neither the transform nor an amax for each row";
  const bool whole = c.options.flag("rht") || (tile == 16 && !padded);
  if (whole && rows_of(c) % 16 != 0) return "rows of x are no multiple of 16";
  for (const std::int64_t length : groups_of(c))
    if (length % 16 != 0) return "a group of rows is no multiple of 16";
  return "";
}

Expected chain_a_expected(const Case& c, const Tensors& inputs, FormA form,
                          std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  if (std::string why = chain_a_refuses(c, false); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  return expected_of(chain_a_outputs(c), inputs, run_chain_a(c, inputs, {}, form, defect), defect);
}

std::vector<FaultDef> chain_a_faults(bool ragged) {
  std::vector<Defect> defects = {
      Defect::ExactScale,       Defect::ReciprocalOrder,  Defect::InverseGlobal,
      Defect::SixInverted,      Defect::FloorAdded,       Defect::ZeroGuardMissing,
      Defect::ScaleImplicitOne, Defect::NegativeZeroLost, Defect::TileFirstRow};
  if (ragged) defects.push_back(Defect::StaleTail);
  std::vector<FaultDef> faults = faults_of(defects);
  for (FaultDef& fault : transform_faults()) faults.push_back(fault);
  return faults;
}

std::vector<FaultDef> transform_faults() {
  return faults_of({Defect::RhtAmaxBefore, Defect::RhtOtherSigns, Defect::RhtNoSigns,
                    Defect::RhtUnscaled, Defect::RhtOrder, Defect::RhtNotRounded,
                    Defect::RhtInverse, Defect::OneAmaxForAll});
}

}  // namespace parity::quantize
