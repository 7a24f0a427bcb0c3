// NF4 (references/integer/nf4.hpp): table=qlora|torchao, block=64, scaler_block=256 (0: amaxes in
// the data's format). The first element of a pair lies in the high nibble. Known by formula; no
// recording.
#include "references/integer/nf4.hpp"

#include "references/integer/tensors.hpp"

namespace parity::integer {
namespace {

Nf4Request request_of(const Case& c, std::string_view fault) {
  return {.data = c.dtype,
          .table = c.options.get("table", "qlora") == "torchao" ? kNf4Torchao : kNf4Qlora,
          .block = c.options.integer("block", 64),
          .scaler_block = c.options.integer("scaler_block", 256),
          .defect = defect_of(fault)};
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Nf4Request r = request_of(c, "");
  const std::int64_t elements = rows_of(c) * columns_of(c);
  const std::int64_t blocks = r.block > 0 ? elements / r.block : 0;
  std::vector<TensorSpec> specs = {
      matrix_spec("packed", Role::Codes, Dtype::U8, rows_of(c), columns_of(c) / 2),
      matrix_spec("dequant", Role::Output, c.dtype, rows_of(c), columns_of(c))};
  if (r.scaler_block <= 0) {
    specs.push_back(group_spec("scale", Role::Scales, c.dtype, blocks));
    return specs;
  }
  specs.push_back(group_spec("scalers", Role::Codes, Dtype::I8, blocks));
  specs.push_back(group_spec("factor", Role::Scales, c.dtype, blocks / r.scaler_block));
  specs.push_back(group_spec("mean", Role::Scales, c.dtype, 1));
  return specs;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  const Nf4Request r = request_of(c, fault);
  const std::int64_t elements = rows_of(c) * columns_of(c);
  if (r.block <= 0 || r.scaler_block < 0 || elements % r.block != 0 || columns_of(c) % 2 != 0)
    return {.refused = "the elements are no multiple of the block"};
  if (r.scaler_block > 0 && elements / r.block % r.scaler_block != 0)
    return {.refused = "the blocks are no multiple of the block of scalers"};
  const Nf4 q = quantise_nf4(r, quantize::matrix_of(inputs.at("x")));
  const bool swapped = r.defect == Defect::NibblesSwapped;
  std::vector<double> packed;
  std::vector<std::uint8_t> open;
  for (std::size_t i = 0; i + 1 < q.codes.size(); i += 2) {
    const int high = q.codes[swapped ? i + 1 : i], low = q.codes[swapped ? i : i + 1];
    packed.push_back(high * 16 + low);
    open.push_back(q.open[i] != 0 || q.open[i + 1] != 0 ? 1 : 0);
  }
  Expected expected;
  for (const TensorSpec& spec : outputs(c)) {
    if (spec.name == "packed")
      expected.tensors.push_back(chains::exact(spec, packed, open));
    else if (spec.name == "dequant")
      expected.tensors.push_back(chains::exact(spec, q.values, q.open));
    else if (spec.name == "mean")
      expected.tensors.push_back(chains::exact(spec, std::vector<float>{q.mean}));
    else
      expected.tensors.push_back(chains::exact(spec, spec.name == "scalers"  ? q.scalers
                                                     : spec.name == "factor" ? q.factors
                                                                             : q.amax));
  }
  return expected;
}

const Register chain{ChainDef{
    .name = "nf4",
    .what = "the nearest of 16 normal quantiles of x / amax, blocks of 64; their amaxes in int8 "
            "about their mean, by 256",
    .quantize = quantize,
    .outputs = outputs,
    .faults = faults_of({Defect::Divided, Defect::HalfAway, Defect::FullRange, Defect::ZeroExcluded,
                         Defect::NeighbourGroup, Defect::NibblesSwapped}),
}};

}  // namespace
}  // namespace parity::integer
