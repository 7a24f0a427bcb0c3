#include "references/sparse24/tensors.hpp"

#include <cmath>

#include "harness/failure.hpp"

namespace parity::sparse24 {

void import_matrix(const StoredCase& stored, ImportedCase& imported, std::string_view input) {
  const auto& dims = imported.inputs.at(input).spec.dims;
  if (dims.size() != 2)
    throw GoldenError(stored.file + ": " + stored.name + ": " + std::string(input) +
                      " is no matrix");
  imported.problem.sizes.set({.name = "M", .extent = dims[0].extent});
  imported.problem.sizes.set({.name = "K", .extent = dims[1].extent});
}

ExpectedTensor mask_tensor(const TensorSpec& spec, const Mask& mask) {
  return chains::exact(spec, std::vector<double>(mask.kept.begin(), mask.kept.end()), mask.open);
}

std::vector<double> masked(const Tensor& x, const Mask& mask, Defect defect) {
  std::vector<double> values = x.widened();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (mask.kept[i] == 0) values[i] = defect == Defect::ZerosPositive ? 0 : values[i] * 0;
  return values;
}

ExpectedTensor metadata_tensor(const TensorSpec& spec, const Compressed& compressed) {
  ExpectedTensor t{.spec = spec};
  const bool wide = spec.dtype == Dtype::I32;
  t.bits.resize(compressed.words.size() * (wide ? 4 : 2));
  for (std::size_t i = 0; i < compressed.words.size(); ++i) {
    store_code(spec.dtype, t.bits.data(), static_cast<std::int64_t>(i), compressed.words[i]);
    t.value.push_back(decode(spec.dtype, compressed.words[i]));
    t.scale.push_back(std::fabs(t.value.back()));
  }
  return t;
}

}  // namespace parity::sparse24
