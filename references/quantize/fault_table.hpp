// A family's defects and the rows that name them.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::quantize {

template <class Defect>
struct FaultRow {
  Defect defect = Defect::None;
  FaultDef fault = {};
};

// None for an id that the table does not know.
template <class Defect>
Defect defect_in(const std::vector<FaultRow<Defect>>& table, std::string_view fault) {
  if (fault.empty()) return Defect::None;
  const auto it =
      std::ranges::find(table, fault, [](const FaultRow<Defect>& r) { return r.fault.id; });
  return it == table.end() ? Defect::None : it->defect;
}

template <class Defect>
std::vector<FaultDef> faults_in(const std::vector<FaultRow<Defect>>& table,
                                const std::vector<Defect>& defects) {
  std::vector<FaultDef> faults;
  for (const FaultRow<Defect>& row : table)
    if (std::ranges::find(defects, row.defect) != defects.end()) faults.push_back(row.fault);
  return faults;
}

}  // namespace parity::quantize
