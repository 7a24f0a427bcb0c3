// torchao's tinygemm int4: the zero point is a number among the data, and the range of a group need
// not hold zero (references/integer/affine.hpp has the formulas).
#include "references/integer/tensors.hpp"

namespace parity::integer {
namespace {

constexpr float kEps = 1e-6F;

Affine parameters(const Case& c, std::string_view fault) {
  Affine a = affine_of(c, fault);
  a.mapping = Mapping::Tinygemm;
  a.qmin = static_cast<int>(c.options.integer("qmin", 0));
  a.qmax = static_cast<int>(c.options.integer("qmax", 15));
  a.eps = static_cast<float>(c.options.real("eps", static_cast<double>(kEps)));
  return a;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Affine a = parameters(c, "");
  const std::int64_t rows = rows_of(c), columns = columns_of(c), groups = groups_of(c, a);
  std::vector<TensorSpec> specs = {
      matrix_spec("codes", Role::Codes, parse_dtype(c.options.get("codes", "i32")), rows, columns),
      group_spec("scale", Role::Scales, a.scale, groups),
      group_spec("zero_point", Role::Scales, a.scale, groups)};
  if (c.options.flag("dequant"))
    specs.push_back(matrix_spec("dequant", Role::Output, c.dtype, rows, columns));
  return specs;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const Affine a = parameters(c, fault);
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  if (const std::string why = refuses(a, x.rows, x.columns); !why.empty()) return {.refused = why};
  const Integers q = quantise(a, x, choose_all(a, x));
  Expected expected;
  for (const TensorSpec& spec : outputs(c)) expected.tensors.push_back(affine_tensor(spec, q));
  return expected;
}

const Register chain{ChainDef{
    .name = "int_tinygemm",
    .what = "q = clamp(round((x - lo) / s)), s = (max - min)/15, zero point among the data",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"int_torchao_tinygemm"},
    .faults = faults_of({Defect::HalfAway, Defect::Truncated, Defect::WideScale, Defect::FullRange,
                         Defect::ZeroExcluded, Defect::EpsMissing, Defect::DequantExpanded,
                         Defect::DequantWide, Defect::NeighbourGroup}),
    .import = import_affine,
}};

}  // namespace
}  // namespace parity::integer
