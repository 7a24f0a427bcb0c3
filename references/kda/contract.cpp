// Contracts of what a file recorded: from `operand_rounding`, `chunk` and `source` of the candidate
// (interface.md §5).
#include "references/kda/base.hpp"
#include "references/kda/problem.hpp"

namespace parity::kda {
namespace {

std::string attribute(const std::map<std::string, std::string>& attributes,
                      const std::string& name) {
  const auto it = attributes.find(name);
  return it == attributes.end() ? std::string{} : it->second;
}

// Storage between the kernels of flash-linear-attention (kda.md §4.2): everything but the gate, the
// carried states and the 16 x 16 diagonal blocks in the type of k.
void add_storage(Contract& contract, Dtype to, const Setup& s) {
  for (const char* where : {"aqk", "m", "w", "u", "kg", "qg", "v_new", "h", "kbg", "beta_v",
                            "dv_new", "dh", "h_dh", "dw", "kge", "dm"})
    contract.roundings.push_back({.where = where, .to = to});
  if (s.l2norm) contract.roundings.push_back({.where = "qk", .to = to});
  if (!s.sigmoid)
    contract.roundings.push_back(
        {.where = "beta_k", .to = to});  // sigmoid(beta) is f32, and then so is the product
}

}  // namespace

Contract contract_of(const Case& c, const std::map<std::string, std::string>& attributes) {
  const Setup s = setup_of(c);
  // In plain f32 only the types are known: neither the order of the sums nor how the decays are
  // made.
  Contract contract{.name = "f32",
                    .dtypes = {c.dtype},
                    .accumulate = Dtype::F32,
                    .chunk = 64,
                    .fidelity = Fidelity::Partial};
  if (const std::string chunk = attribute(attributes, "chunk"); !chunk.empty())
    contract.chunk = std::stoll(chunk);
  if (c.dtype == Dtype::F64) {
    contract.name = "f64";
    contract.accumulate = Dtype::F64;
    return contract;
  }
  const std::string rounding = attribute(attributes, "operand_rounding");
  const bool storage = rounding.empty() ? c.dtype == Dtype::BF16 || c.dtype == Dtype::F16
                                        : rounding.find("between kernels") != std::string::npos;
  if (!storage) return contract;
  contract.name = "fla_" + std::string(name(c.dtype));
  contract.fidelity = Fidelity::Faithful;
  add_storage(contract, c.dtype, s);
  const bool old = attribute(attributes, "source").find(" 0.4.") != std::string::npos;
  // Tensor cores drop the low bits of f32 operands (tolerance.md §6.1).
  if (rounding.empty() || rounding.find("tf32") != std::string::npos) {
    contract.roundings.push_back(
        {.where = "products", .to = Dtype::TF32, .mode = Rounding::TowardZero});
    contract.roundings.push_back(
        {.where = "merge", .to = Dtype::TF32, .mode = Rounding::TowardZero});
    if (rounding.find("diagonal blocks too") != std::string::npos) {
      contract.name += "_safe";
      contract.roundings.push_back(
          {.where = "diagonal", .to = Dtype::TF32, .mode = Rounding::TowardZero});
      // 0.6.0 asks for bf16x3 in the backward's diagonal blocks (kda.md §4.2).
      contract.roundings.push_back(old ? RoundingPoint{.where = "d_diagonal",
                                                       .to = Dtype::TF32,
                                                       .mode = Rounding::TowardZero}
                                       : RoundingPoint{.where = "d_parts", .to = Dtype::BF16});
    }
  }
  // Until 0.6.0 dq and dk were stored narrow before the norm's backward, and the raw gate's
  // gradient was summed into dt_bias after its cast (kda.md §2.1).
  if (old) {
    contract.name += "_0_4";
    if (s.l2norm) contract.roundings.push_back({.where = "dqk", .to = c.dtype});
    if (s.has_bias) contract.roundings.push_back({.where = "dbias", .to = c.dtype});
  }
  return contract;
}

}  // namespace parity::kda
