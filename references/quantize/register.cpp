// quantize: block quantisation by one of the public chains (option `chain`).
//   in   x_MK             the case's dtype; or x_K, of one axis, which some chains refuse
//   out  codes, scales    packed e2m1 and e4m3, bit for bit; further tensors by chain and option
//   options  chain=NAME, amax_factor=F (calibrated amax = F max|x|), swizzle=1, dequant=1,
//   dequant_f32=1, transpose=1,
//            ste=1 (backward: grads/x, the straight-through estimator, from cotangents/dequant)
// A chain is a file of references/chains and a ChainDef; the op looks it up by name.
#include <cstring>

#include "references/quantize/import.hpp"
#include "references/quantize/nvfp4.hpp"
#include "references/quantize/rht.hpp"
#include "references/quantize/stream.hpp"

namespace parity::quantize {
namespace {

// Null where the case names none: `refuses` tells.
const ChainDef* chain_of(const Case& c) { return registry().chain(c.options.get("chain", "")); }

std::string refuses(const Case& c) {
  if (c.sizes.find("K") == nullptr) return "x has rows of K elements";
  if (c.dtype != Dtype::F32 && c.dtype != Dtype::BF16) return "x is f32 or bf16";
  if (const std::string signs = c.options.get("signs", "");
      !signs.empty() && !parse_signs(signs).has_value())
    return "signs is a mask of 16 bits, as 0xD7E8: bit i is set where sign i is -1";
  if (chain_of(c) != nullptr) return "";
  std::string known;
  for (const ChainDef& chain : registry().chains)
    known += (known.empty() ? "" : ", ") + std::string(chain.name);
  return "no chain '" + c.options.get("chain", "") + "' (chain=" + known + ")";
}

std::vector<TensorSpec> inputs(const Case& c) {
  if (c.sizes.find("K") == nullptr) return {};
  if (const ChainDef* chain = chain_of(c); chain != nullptr && chain->inputs != nullptr)
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

std::vector<TensorSpec> outputs(const Case& c) {
  const ChainDef* chain = chain_of(c);
  return chain == nullptr ? std::vector<TensorSpec>{} : chain->outputs(c);
}

Expected evaluate(const Case& c, const Tensors& inputs, bool gradients, std::string_view fault) {
  const ChainDef* chain = chain_of(c);
  if (chain == nullptr) return {.refused = refuses(c)};
  Expected expected = chain->quantize(c, inputs, fault);
  if (!gradients)
    std::erase_if(expected.tensors,
                  [](const ExpectedTensor& t) { return t.spec.role == Role::Gradient; });
  return expected;
}

Expected reference(const Case& c, const Tensors& inputs, bool gradients) {
  return evaluate(c, inputs, gradients, "");
}

// No rounding is left open, so that every variant is the base itself.
Evaluation base(const BaseRequest& request) {
  Evaluation evaluation;
  for (ExpectedTensor& t :
       evaluate(request.problem, request.inputs, request.gradients, request.fault).tensors)
    evaluation.push_back({std::move(t.spec.name), std::move(t.value), std::move(t.bits)});
  return evaluation;
}

Contract contract(const Case&, const std::map<std::string, std::string>&) {
  return {.name = "exact_chain",
          .dtypes = {Dtype::F32, Dtype::BF16},
          .fidelity = Fidelity::Twin,
          .invariant = {"threads"}};
}

const Register op{OpDef{
    .name = "quantize",
    .what = "codes = e2m1(x enc(block)), scales = e4m3(amax of 16, by the chain's own order)",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"https://github.com/pytorch/ao", "https://github.com/NVIDIA/TransformerEngine"},
    .inputs = inputs,
    .outputs = outputs,
    .derive = derive,
    .refuses = refuses,
    .reference = reference,
    .base = base,
    .contract = contract,
    .import = import_case,
    .faults = all_faults(),
}};

}  // namespace
}  // namespace parity::quantize
