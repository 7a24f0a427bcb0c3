// torch's pruners: WeightNormSparsifier by squares of 1x4 groups, and the CPU pruner of 4x4 tiles.
#include <algorithm>

#include "references/sparse24/tensors.hpp"

namespace parity::sparse24 {
namespace {

std::vector<TensorSpec> inputs(const Case& c) {
  return {matrix_spec("x", Role::Input, c.dtype, rows_of(c), columns_of(c))};
}

std::vector<TensorSpec> pruned_and_mask(const Case& c) {
  return {matrix_spec("pruned", Role::Output, c.dtype, rows_of(c), columns_of(c)),
          matrix_spec("mask", Role::Ids, Dtype::U8, rows_of(c), columns_of(c))};
}
std::vector<TensorSpec> pruned_alone(const Case& c) {
  return {matrix_spec("pruned", Role::Output, c.dtype, rows_of(c), columns_of(c))};
}

Expected weight_norm(const Case& c, const Tensors& tensors, std::string_view fault) {
  if (columns_of(c) % 4 != 0) return {.refused = "rows are no multiple of 4"};
  const Defect defect = defect_of(fault);
  const Tensor& x = tensors.at("x");
  const Mask mask = prune(x, Rule::WeightNorm, defect);
  const std::vector<TensorSpec> specs = pruned_and_mask(c);
  Expected expected;
  expected.tensors.push_back(chains::exact(specs[0], masked(x, mask, defect), mask.open));
  expected.tensors.push_back(mask_tensor(specs[1], mask));
  return expected;
}

Expected tile(const Case& c, const Tensors& tensors, std::string_view fault) {
  if (columns_of(c) % 4 != 0 || rows_of(c) % 4 != 0)
    return {.refused = "rows and columns are no multiples of 4"};
  const Defect defect = defect_of(fault);
  const Tensor& x = tensors.at("x");
  // Selected, not multiplied: what is pruned is +0.
  std::vector<double> values = masked(x, prune(x, Rule::Tile, defect), Defect::ZerosPositive);
  Expected expected;
  expected.tensors.push_back(chains::exact(pruned_alone(c)[0], std::move(values)));
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  import_matrix(stored, imported, "x");
  const auto differs = [&](const char* name, std::initializer_list<const char*> known) {
    const std::string value = chains::attribute(stored, name);
    return !value.empty() && std::ranges::find(known, value) == known.end();
  };
  if (differs("zeros_per_block", {"2"}) || differs("sparse_block_shape", {"(1, 4)"}) ||
      differs("sparsity_level", {"1", "1.0"}))
    imported.unsupported = "only two zeros in every block of 1 x 4";
}

const Register weight_norm_chain{ChainDef{
    .name = "sparse24_weightnorm",
    .what = "the two smallest w w of four are zeroed; ties open",
    .quantize = weight_norm,
    .outputs = pruned_and_mask,
    .groups = {"sparse24_weightnorm"},
    .faults = faults_of({Defect::OtherOrder, Defect::KeepsThree, Defect::ZerosPositive}),
    .inputs = inputs,
    .import = import,
}};

const Register tile_chain{ChainDef{
    .name = "sparse24_tile",
    .what = "4x4 tiles by falling signed value, at most two a row and column",
    .quantize = tile,
    .outputs = pruned_alone,
    .groups = {"sparse24_torch_tile"},
    .faults = faults_of({Defect::TiesLow, Defect::OtherOrder, Defect::KeepsThree}),
    .inputs = inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::sparse24
