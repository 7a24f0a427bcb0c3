// torch's 2:4 compression with CUTLASS's metadata: kept values, metadata, the dense matrix that
// they stand for, and the package's own way back, which scatters f32 in 16-bit halves and makes
// halves quiet that look like signalling NaNs.
#include <bit>

#include "references/sparse24/tensors.hpp"

namespace parity::sparse24 {
namespace {

std::vector<TensorSpec> inputs(const Case& c) {
  return {matrix_spec("dense", Role::Input, c.dtype, rows_of(c), columns_of(c))};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const std::int64_t M = rows_of(c), K = columns_of(c);
  return {matrix_spec("sparse", Role::Output, c.dtype, M, K / 2),
          matrix_spec("meta", Role::Codes, metadata_type(c.dtype), M, words_per_row(c.dtype, K)),
          matrix_spec("dense", Role::Output, c.dtype, M, K),
          matrix_spec("roundtrip", Role::Output, c.dtype, M, K),
          {.name = "violations", .role = Role::Ids, .dtype = Dtype::I32, .dims = {{"N", 1}}}};
}

std::uint32_t quieted(std::uint32_t half) {
  const bool nan = (half & 0x7C00U) == 0x7C00U && (half & 0x3FFU) != 0;
  return nan ? half | 0x200U : half;
}

float with_quiet_halves(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(quieted(bits >> 16) << 16 | quieted(bits & 0xFFFFU));
}

Expected quantize(const Case& c, const Tensors& tensors, std::string_view fault) {
  const std::int64_t M = rows_of(c), K = columns_of(c);
  if (const std::string why = refuses(c.dtype, WordOrder::Cutlass, M, K); !why.empty())
    return {.refused = why};
  const Defect defect = defect_of(fault);
  const Tensor& dense = tensors.at("dense");
  const Compressed compressed = compress(dense, WordOrder::Cutlass, defect);
  const std::vector<double> x = dense.widened();
  std::vector<double> sparse, scattered(x.size()), back(x.size());
  for (const std::int64_t index : compressed.kept) {
    const auto i = static_cast<std::size_t>(index);
    sparse.push_back(x[i]);
    scattered[i] = x[i];
    back[i] = c.dtype == Dtype::F32 && defect != Defect::NotQuieted
                  ? static_cast<double>(with_quiet_halves(static_cast<float>(x[i])))
                  : x[i];
  }
  const std::vector<TensorSpec> specs = outputs(c);
  Expected expected;
  expected.tensors.push_back(chains::exact(specs[0], std::move(sparse)));
  expected.tensors.push_back(metadata_tensor(specs[1], compressed));
  expected.tensors.push_back(chains::exact(specs[2], std::move(scattered)));
  expected.tensors.push_back(chains::exact(specs[3], std::move(back)));
  expected.tensors.push_back(
      chains::exact(specs[4], std::vector<double>{static_cast<double>(compressed.violations)}));
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  import_matrix(stored, imported, "dense");
}

const Register chain{ChainDef{
    .name = "sparse24_cutlass",
    .what = "i0 = first non-zero, i1 = second; nibbles i0 | i1 << 2 in CUTLASS's order",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"sparse24_torch_cutlass"},
    .faults = faults_of({Defect::NotReordered, Defect::IndicesSwapped, Defect::WrongSecond,
                         Defect::Unvalidated, Defect::NotQuieted}),
    .inputs = inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::sparse24
