// Transformer Engine's NVFP4 (its python reference): chain A with its own corner policy, NaN and -0
// give code 0. A row whose length is no multiple of 16 ends in a short block (padded with zeros);
// 16x16 tiles pad the rows too, and the scales keep the padded rows. Powers of two as block scales
// (pow2=1) are refused, as there.
//   source   transformer_engine 2.20.2, pytorch/custom_recipes/reference_nvfp4.py
#include "references/chains/chain_a.hpp"
#include "references/chains/import_a.hpp"

namespace parity::quantize {
namespace {

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (c.options.flag("pow2"))
    return {.refused = "power-of-two scales need blocks of 32 and raise in this entry point"};
  if (columns_of(c) % 2 != 0) return {.refused = "an odd row does not fill its last byte"};
  if (std::string why = chain_a_refuses(c, true); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  constexpr E2m1Policy kPolicy{.nan = E2m1Nan::Zero, .negative_zero = E2m1NegativeZero::Positive};
  return expected_of(chain_a_outputs(c), inputs,
                     run_chain_a(c, inputs, kPolicy, FormA::OneRounding, defect), defect);
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Case& c = imported.problem;
  if (attribute(stored, "arg_quant_tile_shape") == "(16, 16)") c.options.set("tile", "16");
  if (attribute(stored, "arg_row_scaled_nvfp4") == "True") c.options.set("row_scaled", "1");
  if (attribute(stored, "arg_with_rht") != "True") return;
  c.options.set("rht", "1");
  const bool signs = attribute(stored, "arg_with_random_sign_mask") != "False";
  import_signs(stored, imported, signs ? "" : "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
  if (c.dtype != Dtype::F32 || !has(stored, "outputs/rht_t")) return;
  Tensor given = stored.read("outputs/rht_t");
  given.spec.name = "rht_given";
  given.spec.role = Role::Input;
  imported.inputs.add(std::move(given));
}

const Register chain{ChainDef{
    .name = "nvfp4_te",
    .what =
        "chain A as Transformer Engine's reference: s = e4m3(bamax (S_enc/6)), enc = 1/(s S_dec)",
    .quantize = quantize,
    .outputs = chain_a_outputs,
    .groups = {"nvfp4_te_1x16", "nvfp4_te_16x16", "nvfp4_te_rht", "nvfp4_te_row_scaled"},
    .faults = chain_a_faults(true),
    .inputs = chain_a_inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::quantize
