// The authors' four over six: options rule=static_6|static_4|mse|mae|abs_max, tile=1|16.
//   S = t b / amax, unclamped      t = 4 (static_4) or 6;  b = 448 (static) or 256
//   base = (bamax/t) S, 0 where amax is 0; s = e4m3 without saturation of base, and of 1.5 base
//   y = x (1 / ((1/S) s)), 0 where s is 0; q rounds to nearest even without saturation, so that
//   |y| >= 7 (a scale rounded down among the subnormals) gives 8, whose code is that of -0
//   d = ((q s) amax) / 1536 - x, summed (mse, mae) or largest (abs_max) over the block
//   source   mit-han-lab/fouroversix dadfad69, quantize/pytorch/reference.py
#include <array>
#include <cmath>

#include "references/quantize/four_six.hpp"
#include "references/quantize/import.hpp"

namespace parity::quantize {
namespace {

// Halves below 2, whole numbers below 4, even ones above; 8 has no code of its own.
float rounded(float y) {
  const float a = std::fabs(y);
  const float q = a < 2   ? std::nearbyint(2 * a) / 2
                  : a < 4 ? std::nearbyint(a)
                          : 2 * std::nearbyint(a / 2);
  return std::copysign(q, y);
}

std::uint8_t code_of(float y) {
  const float q = rounded(y);
  if (std::fabs(q) > 6) return 8;
  return e2m1_from_float(y, {.nan = E2m1Nan::Zero, .negative_zero = E2m1NegativeZero::Positive});
}

struct Authors {
  float amax = 0;
  float t = 6;
  float encode = 1;  // S
  std::int64_t tile = 1;
  Defect defect = Defect::None;

  Quantised candidate(const Matrix& x, float times) const {
    const Chain chain{
        .scale =
            [&](float block_amax, const Place&) {
              const float base =
                  amax == 0 ? 0
                            : (defect == Defect::SixInverted ? block_amax * (1 / t) * encode
                                                             : block_amax / t * encode);
              BlockScale block;
              const float scale = base * times;
              block.code = std::isnan(scale) ? 0x7F : e4m3_from_float(scale, Overflow::Infinity);
              const float kept =
                  defect == Defect::ExactScale ? scale : scale_value(block.code, defect);
              block.encode = kept == 0 && defect != Defect::GuardMissing ? 0
                             : defect == Defect::ReciprocalOrder         ? encode / kept
                                                                         : 1 / (1 / encode * kept);
              return block;
            },
        .code = [](float y, std::int64_t) { return code_of(y); },
        .tile = tile,
        .defect = defect};
    return quantise(x, chain);
  }
};

std::vector<TensorSpec> outputs(const Case& c) {
  std::vector<TensorSpec> specs = {codes_spec("codes", rows_of(c), columns_of(c)),
                                   scales_spec("scales", rows_of(c), columns_of(c)),
                                   scalar_spec("amax")};
  for (TensorSpec& spec : optional_specs(c)) specs.push_back(std::move(spec));
  return traced_or(c, std::move(specs));
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const std::int64_t tile = c.options.integer("tile", 1);
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  if (rows_of(c) % tile != 0) return {.refused = "rows of x are no multiple of the tile"};
  const std::string rule = c.options.get("rule", "mse");
  const std::map<std::string, BlockError> errors = {
      {"mae", BlockError::Mean}, {"mse", BlockError::Square}, {"abs_max", BlockError::Largest}};
  const bool fixed = rule == "static_6" || rule == "static_4";
  if (!fixed && !errors.contains(rule))
    return {.refused = "rule is static_6, static_4, mse, mae or abs_max"};
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  Authors a{.amax = calibrated_amax(c, x, defect), .tile = tile, .defect = defect};
  a.t = rule == "static_4" ? 4 : 6;
  const bool wide = fixed || defect == Defect::ChoiceBound;
  const float bound = a.t * (wide ? kMaxE4m3 : 256.0F);
  a.encode = bound / a.amax;
  const float decoded = a.t * (fixed ? kMaxE4m3 : 256.0F);
  const auto value = [&](float q, float scale) { return q * scale * a.amax / decoded; };
  Result result;
  if (fixed) {
    result.rows = a.candidate(x, 1);
  } else {
    result.rows = better_of(
        {.six = a.candidate(x, 1),
         .four = a.candidate(x, 1.5F),
         .deviation = [&](const Quantised& q, std::size_t i,
                          float scale) { return value(rounded(q.scaled[i]), scale) - x.values[i]; },
         .error = errors.at(rule)},
        defect);
  }
  result.dequant = dequantised(
      result.rows, [&](float code, float scale, const Place&) { return value(code, scale); });
  result.values = {{"amax", {a.amax}}, {"tensor_amax", {a.amax}}};
  return expected_of(outputs(c), inputs, result, defect);
}

void import(const StoredCase& stored, ImportedCase& imported) {
  imported.problem.options.set("rule", attribute(stored, "scale_rule"));
  if (attribute(stored, "block_scale_2d") == "1") imported.problem.options.set("tile", "16");
}

const Register chain{ChainDef{
    .name = "nvfp4_fouroversix",
    .what = "four over six as its authors: S unclamped, scales and codes without saturation",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_fouroversix"},
    .faults = faults_of({Defect::ChoiceTie, Defect::ChoiceSigned, Defect::ChoiceMeasure,
                         Defect::ChoiceBound, Defect::ExactScale, Defect::ReciprocalOrder,
                         Defect::SixInverted, Defect::GuardMissing}),
    .import = import,
}};

}  // namespace
}  // namespace parity::quantize
