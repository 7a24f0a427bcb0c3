// A family's defects and the rows that name them.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::quantize {

template <class Defect>
class FaultTable {
 public:
  struct Row {
    Defect defect = Defect::None;
    FaultDef fault = {};
  };
  FaultTable(std::initializer_list<Row> rows) : rows_(rows) {}

  // None for an id that the table does not know.
  Defect defect(std::string_view id) const {
    const auto it = std::ranges::find(rows_, id, [](const Row& r) { return r.fault.id; });
    return it == rows_.end() ? Defect::None : it->defect;
  }
  // The rows of some defects, in the table's order.
  std::vector<FaultDef> faults(const std::vector<Defect>& defects) const {
    std::vector<FaultDef> faults;
    for (const Row& row : rows_)
      if (std::ranges::find(defects, row.defect) != defects.end()) faults.push_back(row.fault);
    return faults;
  }
  std::vector<FaultDef> faults() const {
    std::vector<FaultDef> faults;
    for (const Row& row : rows_) faults.push_back(row.fault);
    return faults;
  }

 private:
  std::vector<Row> rows_;
};

}  // namespace parity::quantize
