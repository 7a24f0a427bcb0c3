#include "references/fake_quantize/bounds.hpp"

#include "references/chains/chain_op.hpp"

namespace parity::fake_quantize {

Bound bound(const Case& c, const Contract& contract, const TensorSpec& spec) {
  const std::string chain = c.options.get("chain", "");
  if (chain == "int4_weight_fake_quant" && spec.name == "grads/x")
    return {.kind = BoundKind::Estimated,
            .rho = 0,
            .roundings = {{.c = 1, .to = Dtype::F32, .what = "allowance of the element"}},
            .subnormals = 0,
            .why =
                "the gradient through a group's scale is a sum over the group in an order of "
                "its source's own: 1e-6 max|g| (f32) or 2^-8 max|g| (bf16) at the extreme "
                "elements that receive it, and an e4m3 step where the sum is cast to e4m3; "
                "zero elsewhere (the companion holds the allowance in units of 2^-24)"};
  if (c.options.flag("linear") && (spec.name == "prepare_y" || spec.name == "convert_y"))
    return {.kind = BoundKind::Estimated,
            .rho = 1,
            .growth = {.kind = Growth::Kind::WorstCase, .n = static_cast<double>(c.sizes["K"])},
            .accumulate = Dtype::F32,
            .why =
                "f32 products of a CPU in any order: (K/2) 2^-23 sum|a b|, then one rounding to "
                "the output"};
  if (c.options.flag("linear") && spec.name.starts_with("grads/")) {
    const bool narrow = spec.dtype == Dtype::BF16;
    return {.kind = BoundKind::Estimated,
            .rho = 0,
            .roundings = {{.c = narrow ? 4.0 : 8.0,
                           .to = spec.dtype,
                           .what = "product, two scale products, mask"}},
            .why =
                "four roundings of a value of at most sum|a b|, each of 2^-8 (bf16) or 2^-23 "
                "(f32, with the order of its sum)"};
  }
  return chains::exact_bound(c, contract, spec);
}

}  // namespace parity::fake_quantize
