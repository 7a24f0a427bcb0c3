// fake_quantize: quantised and dequantised again in one step, as quantisation-aware training does,
// with the straight-through gradient of each source (option chain=NAME, references/chains).
//   in   x_MK, cotangents/fake_quant      out  fake_quant and what else the chain has (scale,
//   zero_point, mask), grads/x
#include "references/chains/chain_op.hpp"
#include "references/fake_quantize/bounds.hpp"

namespace parity {
namespace {

ImportedCase import(const StoredCase& stored) {
  return chains::import_case(stored, "fake_quantize", "fake_quant");
}

std::string refuses(const Case& c) {
  if (c.sizes.find("K") == nullptr || c.sizes.find("M") == nullptr) return "x is a matrix M x K";
  if (c.dtype != Dtype::F32 && c.dtype != Dtype::BF16) return "x is f32 or bf16";
  return chains::refuses(c);
}

Contract contract(const Case& c, const std::map<std::string, std::string>& attributes) {
  Contract exact = chains::exact_contract(c, attributes);
  exact.dtypes = {Dtype::F32, Dtype::BF16};
  return exact;
}

const Register op{OpDef{
    .name = "fake_quantize",
    .what = "dq(q(x)), gradient straight through inside the range",
    .directions = {Direction::Forward, Direction::Backward},
    .sources = {"https://github.com/pytorch/ao"},
    .inputs = chains::inputs,
    .outputs = chains::outputs,
    .refuses = refuses,
    .reference = chains::reference,
    .base = chains::base,
    .contract = contract,
    .import = import,
}};

const Register bound{BoundDef{.op = "fake_quantize", .bound = fake_quantize::bound}};

}  // namespace
}  // namespace parity
