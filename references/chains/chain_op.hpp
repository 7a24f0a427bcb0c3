// What the ops share whose formulas are chains (option chain=NAME, references/chains): a case is
// handed to the chain that it names, a stored case to the chain that explains its group, and what a
// chain gives is equal bit for bit.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/registry.hpp"

namespace parity::chains {

const ChainDef* chain_of(const Case&);  // null where the case names none
std::string refuses(const Case&);       // "" = it names one that belongs to its op
std::vector<TensorSpec> inputs(const Case&);
std::vector<TensorSpec> outputs(const Case&);
Expected reference(const Case&, const Tensors& inputs, bool gradients);
// No rounding is left open: every variant is the base itself.
Evaluation base(const BaseRequest&);
Contract exact_contract(const Case&, const std::map<std::string, std::string>& attributes);
Bound exact_bound(const Case&, const Contract&, const TensorSpec&);

// The stored case as a case of the op: inputs by their own names, "dy" as the cotangent of
// `answer`, outputs and grads as results. The chain's import adds its options, and may rename.
ImportedCase import_case(const StoredCase&, std::string_view op, std::string_view answer);

std::string attribute(const StoredCase&, const std::string& name);  // "" where there is none
bool holds(const StoredCase&, std::string_view path);

// A tensor that is fixed to the last bit, the sign of a zero included; `values` are rounded to its
// format. `ignore`: 1 where the definition leaves an element open.
ExpectedTensor exact(TensorSpec, std::vector<double> values, std::vector<std::uint8_t> ignore = {});
ExpectedTensor exact(TensorSpec, std::span<const float> values,
                     std::vector<std::uint8_t> ignore = {});

}  // namespace parity::chains
