#include "references/kda/faults.hpp"

#include "harness/failure.hpp"

namespace parity::kda {

std::vector<FaultDef> fault_list() { return {}; }

Fault parse_fault(std::string_view id) {
  if (id.empty()) return Fault::None;
  throw Failure("kda: no fault '" + std::string(id) + "'");
}

}  // namespace parity::kda
