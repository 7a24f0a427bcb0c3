// torchao's INT8 rows of quantised training.
#include "references/integer/rowwise.hpp"
#include "references/integer/tensors.hpp"

namespace parity::integer {
namespace {

std::vector<TensorSpec> outputs(const Case& c) {
  return {matrix_spec("codes", Role::Codes, Dtype::I8, rows_of(c), columns_of(c)),
          group_spec("scale", Role::Scales, c.dtype, rows_of(c))};
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const Rowwise q = quantise_rows(c.dtype, quantize::matrix_of(inputs.at("x")), defect_of(fault));
  const std::vector<TensorSpec> specs = outputs(c);
  Expected expected;
  expected.tensors.push_back(chains::exact(specs[0], q.codes, q.open));
  expected.tensors.push_back(chains::exact(specs[1], q.scales));
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  if (const std::string sr = chains::attribute(stored, "stochastic_rounding");
      !sr.empty() && sr != "0" && sr != "False")
    imported.unsupported = "stochastic rounding without its random bits has no reference";
}

const Register chain{ChainDef{
    .name = "int8_rowwise",
    .what = "s = amax/127, q = clamp(round(x fl(1/max(s, 1e-12))), -128, 127), one scale a row",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"int_torchao_int8_rowwise"},
    .faults = faults_of({Defect::Divided, Defect::HalfAway, Defect::Truncated, Defect::WideScale,
                         Defect::FullRange, Defect::EpsMissing, Defect::NeighbourGroup}),
    .import = import,
}};

}  // namespace
}  // namespace parity::integer
