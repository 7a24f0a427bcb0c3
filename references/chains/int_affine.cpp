// torchao's affine quantisation to integers: symmetric, symmetric without clipping, asymmetric; one
// scale for a block, a row or the tensor (references/integer/affine.hpp has the formulas).
// packed=1: four-bit codes in pairs too, element 2i in the low nibble, two's complement.
#include "references/integer/tensors.hpp"

namespace parity::integer {
namespace {

std::vector<TensorSpec> outputs(const Case& c) {
  const Affine a = affine_of(c, "");
  const std::int64_t rows = rows_of(c), columns = columns_of(c), groups = groups_of(c, a);
  std::vector<TensorSpec> specs = {
      matrix_spec("codes", Role::Codes, parse_dtype(c.options.get("codes", "i8")), rows, columns),
      group_spec("scale", Role::Scales, a.scale, groups),
      group_spec("zero_point", Role::Ids, Dtype::I32, groups)};
  if (c.options.flag("packed"))
    specs.push_back(matrix_spec("packed", Role::Codes, Dtype::U8, rows, columns / 2));
  if (c.options.flag("dequant"))
    specs.push_back(matrix_spec("dequant", Role::Output, c.dtype, rows, columns));
  return specs;
}

ExpectedTensor pairs(const TensorSpec& spec, const Integers& q, Defect defect) {
  std::vector<double> bytes;
  for (std::size_t i = 0; i + 1 < q.codes.size(); i += 2) {
    unsigned low = static_cast<unsigned>(static_cast<int>(q.codes[i])) & 15U;
    unsigned high = static_cast<unsigned>(static_cast<int>(q.codes[i + 1])) & 15U;
    if (defect == Defect::NibblesSwapped) std::swap(low, high);
    bytes.push_back(static_cast<double>(low | high << 4));
  }
  return chains::exact(spec, std::move(bytes));
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const Affine a = affine_of(c, fault);
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  if (const std::string why = refuses(a, x.rows, x.columns); !why.empty()) return {.refused = why};
  const Integers q = quantise(a, x, choose_all(a, x));
  Expected expected;
  for (const TensorSpec& spec : outputs(c))
    expected.tensors.push_back(spec.name == "packed" ? pairs(spec, q, a.defect)
                                                     : affine_tensor(spec, q));
  return expected;
}

const Register chain{ChainDef{
    .name = "int_affine",
    .what = "q = clamp(round(x fl(1/s)) + zp), s and zp of a block in the data's own dtype",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"int_torchao_affine"},
    .faults = faults_of({Defect::Divided, Defect::HalfAway, Defect::Truncated, Defect::WideScale,
                         Defect::FullRange, Defect::ZeroExcluded, Defect::EpsMissing,
                         Defect::DequantExpanded, Defect::Wrapped, Defect::NeighbourGroup,
                         Defect::NibblesSwapped}),
    .import = import_affine,
}};

}  // namespace
}  // namespace parity::integer
