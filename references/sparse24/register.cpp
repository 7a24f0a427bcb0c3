// sparse24: 2:4 sparsity, two of four elements of a row kept. Pruning and compression by the rule
// of a source (option chain=NAME, references/chains).
//   in   x_MK or dense_MK, bf16, f32, int8     out  mask, pruned; sparse, meta, dense, roundtrip
#include "references/chains/chain_op.hpp"

namespace parity {
namespace {

ImportedCase import(const StoredCase& stored) {
  return chains::import_case(stored, "sparse24", "");
}

std::string refuses(const Case& c) {
  if (c.sizes.find("K") == nullptr || c.sizes.find("M") == nullptr) return "takes a matrix M x K";
  return chains::refuses(c);
}

const Register op{OpDef{
    .name = "sparse24",
    .what = "two of four elements kept, named by 2-bit indices",
    .directions = {Direction::Forward},
    .sources = {"https://github.com/pytorch/pytorch",
                "https://github.com/vllm-project/compressed-tensors"},
    .inputs = chains::inputs,
    .outputs = chains::outputs,
    .refuses = refuses,
    .reference = chains::reference,
    .base = chains::base,
    .contract = chains::exact_contract,
    .import = import,
}};

const Register bound{BoundDef{.op = "sparse24", .bound = chains::exact_bound}};

}  // namespace
}  // namespace parity
