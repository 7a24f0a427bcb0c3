// torchao's NVFP4 training reference, blocks of 1x16: chain A, -0 keeps its sign, the encode
// factors are part of the result. `tensor_scale` is the encode view 2688/amax. Rows are multiples
// of 16.
//   source   pytorch/ao 36027d82, test/prototype/moe_training/nvfp4_training/nvfp4_reference.py
#include "references/chains/chain_a.hpp"

namespace parity::quantize {
namespace {

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  TensorSpec encode = values_spec("encode_scale", Dtype::F32, rows, blocks_of(columns));
  encode.dims.back().name = "KB";
  std::vector<TensorSpec> specs = {codes_spec("codes", rows, columns),
                                   scales_spec("scales", rows, columns), std::move(encode)};
  if (c.options.integer("stats", 1) != 0) {
    specs.push_back(scalar_spec("tensor_scale"));
    specs.push_back(scalar_spec("amax"));
  }
  for (TensorSpec& spec : optional_specs(c)) specs.push_back(std::move(spec));
  return specs;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  const Defect defect = defect_of(fault);
  constexpr E2m1Policy kPolicy{.nan = E2m1Nan::BitTrick};
  return expected_of(outputs(c), inputs, run_chain_a(c, inputs, kPolicy, defect), defect);
}

const Register chain{ChainDef{
    .name = "nvfp4_ao_te",
    .what = "chain A as torchao trains with it: s = e4m3(bamax (S_enc/6)), enc = 1/(s S_dec)",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_ao_te_chain_1x16"},
    .faults = chain_a_faults(false),
}};

}  // namespace
}  // namespace parity::quantize
