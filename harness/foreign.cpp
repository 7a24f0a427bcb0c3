#include "harness/foreign.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "harness/registry.hpp"

namespace parity {

Contract foreign_contract(const Case& problem, const std::string& wanted) {
  const OpDef& op = registry().op_or_throw(problem.op);
  std::vector<Contract> known;
  if (op.contract) known.push_back(op.contract(problem, {}));
  for (const KernelDef& kernel : registry().kernels)
    if (kernel.op == problem.op) known.push_back(kernel.contract);
  known.push_back({.name = "f32", .accumulate = Dtype::F32});
  known.push_back({.name = "f64", .accumulate = Dtype::F64});
  const auto takes = [&](const Contract& contract) {
    return contract.dtypes.empty() ||
           std::ranges::find(contract.dtypes, problem.dtype) != contract.dtypes.end();
  };
  auto found = known.begin();
  if (!wanted.empty()) {
    found = std::ranges::find(known, wanted, &Contract::name);
  } else if (!op.contract) {
    const std::string_view plain = name(problem.dtype);
    found = std::ranges::find_if(
        known, [&](const Contract& contract) { return contract.name == plain && takes(contract); });
    if (found == known.end()) found = std::ranges::find_if(known, takes);
  }
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const Contract& contract : known)
      if (std::ranges::find(names, contract.name) == names.end()) names.push_back(contract.name);
    throw UsageError(
        fmt::format("contract {}: {} knows {}", wanted, problem.op, fmt::join(names, ", ")));
  }
  Contract contract = *found;
  contract.fidelity = Fidelity::Partial;
  contract.deterministic = true;
  contract.invariant.clear();
  return contract;
}

}  // namespace parity
