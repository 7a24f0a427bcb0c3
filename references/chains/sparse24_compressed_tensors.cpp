// compressed-tensors 2:4: the two larger of four by magnitude, of equal ones the later; x m widened
// to f32 and compressed 1:2 with metadata in an older order of words.
#include "references/sparse24/tensors.hpp"

namespace parity::sparse24 {
namespace {

std::vector<TensorSpec> inputs(const Case& c) {
  return {matrix_spec("x", Role::Input, c.dtype, rows_of(c), columns_of(c))};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t M = rows_of(c), K = columns_of(c);
  return {matrix_spec("mask", Role::Ids, Dtype::U8, M, K),
          matrix_spec("sparse", Role::Output, Dtype::F32, M, K / 2),
          matrix_spec("meta", Role::Codes, Dtype::I16, M, words_per_row(Dtype::F32, K))};
}

Expected quantize(const Case& c, const Tensors& tensors, std::string_view fault) {
  if (const std::string why = refuses(Dtype::F32, WordOrder::Old, rows_of(c), columns_of(c));
      !why.empty())
    return {.refused = why};
  const Defect defect = defect_of(fault);
  const Tensor& x = tensors.at("x");
  const Mask mask = prune(x, Rule::HigherIndex, defect);
  TensorSpec wide = x.spec;
  wide.dtype = Dtype::F32;
  const std::vector<double> values = masked(x, mask, defect);
  const Compressed compressed = compress(make_tensor(wide, values), WordOrder::Old, defect);
  std::vector<double> sparse;
  for (const std::int64_t index : compressed.kept)
    sparse.push_back(values[static_cast<std::size_t>(index)]);
  const std::vector<TensorSpec> specs = outputs(c);
  Expected expected;
  expected.tensors.push_back(mask_tensor(specs[0], mask));
  expected.tensors.push_back(chains::exact(specs[1], std::move(sparse)));
  expected.tensors.push_back(metadata_tensor(specs[2], compressed));
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  import_matrix(stored, imported, "x");
}

const Register chain{ChainDef{
    .name = "sparse24_compressed_tensors",
    .what = "the two larger |x| of four, later of equals; f32 pairs, an older order of metadata",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"sparse24_compressed_tensors"},
    .faults = faults_of(
        {Defect::TiesLow, Defect::OtherOrder, Defect::NotReordered, Defect::ZerosPositive}),
    .inputs = inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::sparse24
