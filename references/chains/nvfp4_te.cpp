// Transformer Engine's NVFP4, blocks of 1x16 (its python reference): chain A with its own corner
// policy, NaN and -0 give code 0. A row whose length is no multiple of 16 ends in a short block
// (padded with zeros); `transpose=1` also gives the codes of the transposed matrix, under the same
// amax. Powers of two as block scales (pow2=1) are refused, as there.
//   source   transformer_engine 2.20.2, pytorch/custom_recipes/reference_nvfp4.py
#include "references/chains/chain_a.hpp"

namespace parity::quantize {
namespace {

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  std::vector<TensorSpec> specs = {codes_spec("codes", rows, columns),
                                   scales_spec("scales", rows, columns), scalar_spec("amax_row"),
                                   scalar_spec("amax_col")};
  if (c.options.flag("transpose")) {
    specs.push_back(codes_spec("codes_t", columns, rows));
    specs.push_back(scales_spec("scales_t", columns, rows));
  }
  for (TensorSpec& spec : optional_specs(c)) specs.push_back(std::move(spec));
  return specs;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (c.options.flag("pow2"))
    return {.refused = "power-of-two scales need blocks of 32 and raise in this entry point"};
  if (columns_of(c) % 2 != 0) return {.refused = "an odd row does not fill its last byte"};
  const Defect defect = defect_of(fault);
  constexpr E2m1Policy kPolicy{.nan = E2m1Nan::Zero, .negative_zero = E2m1NegativeZero::Positive};
  return expected_of(outputs(c), inputs, run_chain_a(c, inputs, kPolicy, defect), defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_te",
    .what =
        "chain A as Transformer Engine's reference: s = e4m3(bamax (S_enc/6)), enc = 1/(s S_dec)",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_te_1x16"},
    .faults = chain_a_faults(true),
}};

}  // namespace
}  // namespace parity::quantize
