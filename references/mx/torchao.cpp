// What both revisions of torchao's `to_mx` share: formats and modes by name.
#include <algorithm>
#include <array>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

std::string elem_of(const Case& c) { return c.options.get("elem", "e4m3"); }

}  // namespace

std::uint8_t byte_of(int exponent) {
  return static_cast<std::uint8_t>(std::clamp(exponent, -127, 128) + kBias);
}

std::vector<TensorSpec> torchao_outputs(const Case& c) {
  const Element* e = element_of(elem_of(c));
  return outputs(c, e == nullptr ? Dtype::E4M3 : e->dtype);
}

Expected run_torchao(const Case& c, const Tensors& inputs, std::string_view fault,
                     Chain (*chain_of)(const Element&, const std::string& mode, Defect)) {
  const Element* e = element_of(elem_of(c));
  if (e == nullptr) return {.refused = "no element format '" + elem_of(c) + "'"};
  const std::string mode = c.options.get("mode", "floor");
  constexpr std::array<std::string_view, 4> kModes = {"floor", "ceil", "even", "rceil"};
  if (std::ranges::find(kModes, mode) == kModes.end())
    return {.refused = "no scale mode '" + mode + "'"};
  Chain chain = chain_of(*e, mode, defect_of(fault));
  chain.block = block_of(c);
  return run(c, inputs, chain);
}

void import_torchao(const StoredCase& stored, ImportedCase& imported) {
  Options& options = imported.problem.options;
  quantize::take_option(stored, "elem_dtype", "elem", options);
  quantize::take_option(stored, "scaling_mode", "mode", options);
  if (const std::string block = quantize::attribute_of(stored, "block_size");
      !block.empty() && block != std::to_string(kBlock))
    options.set("block", block);
}

}  // namespace parity::mx
