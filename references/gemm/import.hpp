// Stored products and their contracts (import.cpp).
#pragma once

#include <map>
#include <string>

#include "references/gemm/problem.hpp"

namespace parity::gemm {

[[nodiscard]] ImportedCase import_case(const StoredCase&);
// The schedule that a recorded case was found to follow.
[[nodiscard]] Contract contract(const Case&, const std::map<std::string, std::string>& attributes);
// A contract that promises the bits of a schedule; its name says where the hardware was never seen.
[[nodiscard]] Contract contract_of(const std::string& schedule);

}  // namespace parity::gemm
