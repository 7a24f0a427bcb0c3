// vLLM's emulation of its NVFP4 kernels in python (chain C-emu):
//   G  = fl(fl(1/amax) 2688), or the option global_scale
//   s  = e4m3(clamp(G (bamax fl(1/6)), -448, 448))      g = 1 / (G, 1e8 where 0)
//   enc = 1 / (s g, 1e8 where 0)                        v = sign(y) e2m1(|y|), y = clamp(x enc)
//   dequant = v (s / G)
// The guard is 1e-8, not 0: an underflowed block gives -0 for negative elements. -0 gives +0.
//   source   vllm 055e47c2, model_executor/layers/quantization/utils/nvfp4_emulation_utils.py
#include <charconv>

#include "references/chains/chain_c.hpp"
#include "references/quantize/import.hpp"

namespace parity::quantize {
namespace {

constexpr float kSixth = 1.0F / 6.0F;

float guarded(float x) { return 1 / (x == 0 ? 1e8F : x); }

struct ChainEmulated {
  float global = 1;
  Defect defect = Defect::None;

  BlockScale block(float block_amax) const {
    const float sixth = defect == Defect::SixInverted ? block_amax / kMaxE2m1 : block_amax * kSixth;
    const float scale = defect == Defect::InverseGlobal ? sixth / global : global * sixth;
    BlockScale block;
    block.code = scale_code(scale, defect);
    const float kept =
        defect == Defect::ExactScale ? min_nan(scale, kMaxE4m3) : scale_value(block.code, defect);
    const float product = kept * guarded(global);
    block.encode = defect == Defect::GuardMissing ? 1 / product : guarded(product);
    if (defect == Defect::ReciprocalOrder) block.encode = global / kept;
    return block;
  }
};

std::vector<TensorSpec> outputs(const Case& c) {
  return traced_or(c,
                   {values_spec("values", Dtype::F32, rows_of(c), columns_of(c)),
                    scales_spec("scales", rows_of(c), columns_of(c)), scalar_spec("tensor_scale"),
                    values_spec("dequant", c.dtype, rows_of(c), columns_of(c))});
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  const Matrix x = matrix_of(inputs.at("x"));
  const float largest = calibrated_amax(c, x, defect);
  const int roundings = defect == Defect::RoundingsMissing ? 1 : 2;
  const ChainEmulated chain{.global = global_scale_of(c, largest, roundings), .defect = defect};
  Result result;
  result.rows =
      quantise(x, {.scale = [&](float block_amax, const Place&) { return chain.block(block_amax); },
                   .policy = {.nan = E2m1Nan::Zero, .negative_zero = E2m1NegativeZero::Positive},
                   .defect = defect});
  std::vector<float> values;
  for (std::size_t i = 0; i < result.rows.codes.size(); ++i) {
    const float y = result.rows.scaled[i];
    values.push_back(y != y ? y : float_from_e2m1(result.rows.codes[i]));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const float scale =
        float_from_e4m3(result.rows.scales[result.rows.scale_at(at / x.columns, at % x.columns)]);
    result.dequant.push_back(values[i] * (scale / chain.global));
  }
  result.values = {
      {"values", std::move(values)}, {"tensor_scale", {chain.global}}, {"tensor_amax", {largest}}};
  return expected_of(outputs(c), inputs, result, defect);
}

// "2688/amax", or a number.
void import(const StoredCase& stored, ImportedCase& imported) {
  const std::string text = attribute(stored, "global_scale");
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size())
    imported.problem.options.set("global_scale", text);
  else if (text != "2688/amax")
    imported.unsupported = "a global scale of '" + text + "'";
}

const Register chain{ChainDef{
    .name = "nvfp4_vllm_emulation",
    .what = "chain C-emu, vLLM in python: G = fl(fl(1/amax) 2688), s = e4m3(G (bamax fl(1/6)))",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_vllm_emulation"},
    .faults = faults_of({Defect::ExactScale, Defect::ReciprocalOrder, Defect::InverseGlobal,
                         Defect::SixInverted, Defect::GuardMissing, Defect::NegativeZeroLost,
                         Defect::RoundingsMissing}),
    .import = import,
}};

}  // namespace
}  // namespace parity::quantize
