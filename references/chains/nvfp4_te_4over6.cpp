// Transformer Engine's four over six (chain F, nvfp4_4over6): options e4m3_max=256|448 (the bound
// of the tensor scale, S_enc = 6 e4m3_max / amax), err=mae|mse, fast_err=1, tile=1|16, transpose=1.
//   base = (bamax/6) S_enc     s6 = e4m3(min(base, 448))     s4 = e4m3(min(1.5 base, 448))
//   factors and codes of either as in chain A
//   d = ((q s) amax) / (6 e4m3_max) - x; fast: d = q s - x S_enc; four only if strictly better
//   source   transformer_engine 2.20.2, pytorch/custom_recipes/reference_nvfp4.py
#include "references/chains/chain_a.hpp"
#include "references/chains/import_a.hpp"
#include "references/quantize/four_six.hpp"

namespace parity::quantize {
namespace {

struct ChainF {
  ChainA a;
  float bound = 256;
  BlockError error = BlockError::Mean;
  bool fast = false;
  std::int64_t tile = 1;
  Defect defect = Defect::None;

  float value(float code, float scale) const { return code * scale * a.amax / (6 * bound); }

  Quantised candidate(const Matrix& x, float times) const {
    return quantise(x,
                    {.scale =
                         [&](float block_amax, const Place&) {
                           const float base = defect == Defect::SixInverted
                                                  ? block_amax * (a.encode * (1.0F / 6.0F))
                                                  : block_amax / kMaxE2m1 * a.encode;
                           return a.of_scale(base * times);
                         },
                     .tile = tile,
                     .policy = {.nan = E2m1Nan::Zero, .negative_zero = E2m1NegativeZero::Positive},
                     .defect = defect});
  }
  Quantised quantised(const Matrix& x) const {
    return better_of({.six = candidate(x, 1),
                      .four = candidate(x, 1.5F),
                      .deviation =
                          [&](const Quantised& q, std::size_t i, float scale) {
                            const float code = float_from_e2m1(q.codes[i]);
                            return fast ? code * scale - x.values[i] * a.encode
                                        : value(code, scale) - x.values[i];
                          },
                      .error = error},
                     defect);
  }
};

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % 2 != 0) return {.refused = "an odd row does not fill its last byte"};
  if (c.options.flag("rht") || c.options.flag("row_scaled"))
    return {.refused = "no transform, and one amax for the tensor"};
  const std::string bound = c.options.get("e4m3_max", "256");
  const std::string error = c.options.get("err", "mae");
  if (bound != "256" && bound != "448") return {.refused = "e4m3_max is 256 or 448"};
  if (error != "mae" && error != "mse") return {.refused = "err is mae or mse"};
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  const float top = defect == Defect::ChoiceBound ? kMaxE4m3 : std::stof(bound);
  const ChainF f{.a = ChainA(calibrated_amax(c, x, defect), defect, top),
                 .bound = std::stof(bound),
                 .error = error == "mae" ? BlockError::Mean : BlockError::Square,
                 .fast = c.options.flag("fast_err"),
                 .tile = c.options.integer("tile", 1),
                 .defect = defect};
  Result result;
  result.rows = f.quantised(x);
  if (c.options.flag("transpose")) result.columns = f.quantised(transposed(x));
  result.dequant = dequantised(
      result.rows, [&](float code, float scale, const Place&) { return f.value(code, scale); });
  result.values = {{"amax_row", {f.a.amax}}, {"amax_col", {f.a.amax}}, {"tensor_amax", {f.a.amax}}};
  return expected_of(chain_a_outputs(c), inputs, result, defect);
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Options& options = imported.problem.options;
  if (attribute(stored, "arg_quant_tile_shape") == "(16, 16)") options.set("tile", "16");
  options.set("e4m3_max", attribute(stored, "arg_nvfp4_e4m3_max"));
  options.set("err", attribute(stored, "arg_nvfp4_4over6_err_mode") == "MSE" ? "mse" : "mae");
  if (attribute(stored, "arg_nvfp4_4over6_err_use_fast_math") == "True")
    options.set("fast_err", "1");
}

const Register chain{ChainDef{
    .name = "nvfp4_te_4over6",
    .what = "chain F, TE's four over six: two scales a block, the one with the smaller MAE or MSE",
    .quantize = quantize,
    .outputs = chain_a_outputs,
    .groups = {"nvfp4_te_4over6"},
    .faults = faults_of({Defect::ChoiceTie, Defect::ChoiceSigned, Defect::ChoiceMeasure,
                         Defect::ChoiceBound, Defect::ExactScale, Defect::ReciprocalOrder,
                         Defect::SixInverted, Defect::NegativeZeroLost}),
    .import = import,
}};

}  // namespace
}  // namespace parity::quantize
