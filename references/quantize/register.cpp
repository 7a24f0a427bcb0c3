// quantize: block quantisation by one of the public chains (option `chain`).
//   in   x_MK             the case's dtype; or x_K, of one axis, which some chains refuse
//   out  codes, scales    packed e2m1 and e4m3, bit for bit; further tensors by chain and option
//   options  chain=NAME, amax_factor=F (calibrated amax = F max|x|), swizzle=1, dequant=1,
//   dequant_f32=1, transpose=1,
//            ste=1 (backward: grads/x, the straight-through estimator, from cotangents/dequant)
// A chain is a file of references/chains and a ChainDef; the op looks it up by name.
#include <cstring>

#include "references/chains/chain_op.hpp"
#include "references/quantize/import.hpp"
#include "references/quantize/nvfp4.hpp"
#include "references/quantize/rht.hpp"
#include "references/quantize/stream.hpp"

namespace parity::quantize {
namespace {

std::string refuses(const Case& c) {
  if (c.sizes.find("K") == nullptr) return "x has rows of K elements";
  if (c.dtype != Dtype::F32 && c.dtype != Dtype::BF16) return "x is f32 or bf16";
  if (const std::string signs = c.options.get("signs", "");
      !signs.empty() && !parse_signs(signs).has_value())
    return "signs is a mask of 16 bits, as 0xD7E8: bit i is set where sign i is -1";
  return chains::chain_of(c) != nullptr ? "" : chains::refuses(c);
}

std::vector<TensorSpec> inputs(const Case& c) {
  if (c.sizes.find("K") == nullptr) return {};
  if (const ChainDef* chain = chains::chain_of(c); chain != nullptr && chain->inputs != nullptr)
    return chain->inputs(c);
  return plain_inputs(c);
}

// What no fill draws: signs by the option signs (a mask, bit i: sgn[i] = -1), random bytes by the
// options sr_seed, sr_offset and sr_rank.
bool derive(const Case& c, Tensor& tensor) {
  const std::string_view name = tensor.spec.name;
  if (name == "signs") {
    const std::string text = c.options.get("signs", "");
    const Signs signs = signs_of(
        text.empty() ? kTeSigns : static_cast<std::uint16_t>(std::stoul(text, nullptr, 0)));
    tensor = make_tensor(tensor.spec, std::vector<double>(signs.begin(), signs.end()));
    return true;
  }
  if (!name.starts_with("rbits")) return false;
  const std::vector<std::uint8_t> bytes =
      random_bytes({.seed = static_cast<std::uint64_t>(c.options.integer("sr_seed", 1)) + c.seed,
                    .offset = static_cast<std::uint64_t>(c.options.integer("sr_offset", 0)),
                    .subsequence = subsequence_of(name, c.options.integer("sr_rank", 0))},
                   tensor.elements());
  std::memcpy(tensor.bytes.data(), bytes.data(), bytes.size());
  return true;
}

const Register op{OpDef{
    .name = "quantize",
    .what = "codes = e2m1(x enc(block)), scales = e4m3(amax of 16, by the chain's own order)",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"https://github.com/pytorch/ao", "https://github.com/NVIDIA/TransformerEngine"},
    .inputs = inputs,
    .outputs = chains::outputs,
    .derive = derive,
    .refuses = refuses,
    .reference = chains::reference,
    .base = chains::base,
    .contract = chains::exact_contract,
    .import = import_case,
    .faults = all_faults(),
}};

}  // namespace
}  // namespace parity::quantize
