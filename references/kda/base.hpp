// The op evaluated at a contract (BaseRequest): chunked, in f32, with the contract's rounding
// points; and the contracts of recordings.
#pragma once

#include "harness/registry.hpp"

namespace parity::kda {

Evaluation base(const BaseRequest&);
Contract contract_of(const Case&, const std::map<std::string, std::string>& attributes);

}  // namespace parity::kda
