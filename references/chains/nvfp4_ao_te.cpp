// torchao's NVFP4 training reference: chain A, -0 keeps its sign, the encode factors of 1x16 and
// 16x16 are part of the result. `tensor_scale` is the encode view 2688/amax. Rows are multiples of
// 16; for tiles, the transform and groups of rows so is M.
//   source   pytorch/ao 36027d82, test/prototype/moe_training/nvfp4_training/nvfp4_reference.py
#include "references/chains/chain_a.hpp"
#include "references/chains/import_a.hpp"

namespace parity::quantize {
namespace {

TensorSpec encode_spec(std::string_view name, std::int64_t rows, std::int64_t columns) {
  TensorSpec spec = values_spec(name, Dtype::F32, rows, blocks_of(columns));
  spec.dims.back().name = "KB";
  return spec;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t rows = rows_of(c);
  const std::int64_t columns = columns_of(c);
  const std::int64_t tile = c.options.integer("tile", 1);
  const auto groups = static_cast<std::int64_t>(groups_of(c).size());
  const bool both = c.options.flag("transpose") || c.options.flag("rht");
  std::vector<TensorSpec> specs = {codes_spec("codes", rows, columns)};
  if (groups == 0) {
    specs.push_back(scales_spec("scales", rows, columns));
    specs.push_back(encode_spec("encode_scale", rows / tile, columns));
    if (both) specs.push_back(encode_spec("encode_scale_t", columns / tile, rows));
  }
  if (both && tile == 1) {
    specs.push_back(vector_spec("amax_row", std::max<std::int64_t>(groups, 1)));
    specs.push_back(vector_spec("amax_col", std::max<std::int64_t>(groups, 1)));
  } else if (c.options.integer("stats", 1) != 0) {
    if (tile == 1) specs.push_back(scalar_spec("tensor_scale"));
    specs.push_back(scalar_spec("amax"));
  }
  for (TensorSpec& spec : transposed_specs(c)) specs.push_back(std::move(spec));
  for (TensorSpec& spec : optional_specs(c)) specs.push_back(std::move(spec));
  return traced_or(c, std::move(specs));
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (columns_of(c) % kBlock != 0) return {.refused = "rows are no multiple of 16"};
  if (std::string why = chain_a_refuses(c, false); !why.empty()) return {.refused = why};
  if (c.options.flag("row_scaled")) return {.refused = "one amax for the tensor"};
  if (c.options.flag("transpose") && rows_of(c) % kBlock != 0)
    return {.refused = "rows of x^T are no multiple of 16"};
  const Defect defect = defect_of(fault);
  constexpr E2m1Policy kPolicy{.nan = E2m1Nan::BitTrick};
  return expected_of(outputs(c), inputs,
                     run_chain_a(c, inputs, kPolicy, FormA::OneRounding, defect), defect);
}

// "t_codes" -> "codes_t"; groups by their row ends, the sign vector by its attribute.
void import(const StoredCase& stored, ImportedCase& imported) {
  Case& c = imported.problem;
  for (const auto& [name, path] : std::map(imported.results)) {
    if (!name.starts_with("t_")) continue;
    imported.results.erase(name);
    imported.results[name.substr(2) + "_t"] = path;
  }
  if (has(stored, "outputs/t_codes")) c.options.set("transpose", "1");
  if (attribute(stored, "block") == "16x16") c.options.set("tile", "16");
  if (has(stored, "inputs/offsets")) {
    import_groups(stored, imported);
    c.options.set("rht", "1");
  }
  if (has(stored, "outputs/rht_t")) c.options.set("rht", "1");
  if (c.options.flag("rht")) import_signs(stored, imported, attribute(stored, "sign_vector"));
}

std::vector<FaultDef> faults() {
  std::vector<FaultDef> all = chain_a_faults(false);
  for (FaultDef& fault : faults_of({Defect::GroupsIgnored})) all.push_back(fault);
  return all;
}

const Register chain{ChainDef{
    .name = "nvfp4_ao_te",
    .what = "chain A as torchao trains with it: s = e4m3(bamax (S_enc/6)), enc = 1/(s S_dec)",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"nvfp4_ao_te_chain_1x16", "nvfp4_ao_te_chain_16x16", "nvfp4_ao_te_chain_rht",
               "nvfp4_ao_te_chain_grouped"},
    .faults = faults(),
    .inputs = chain_a_inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::quantize
