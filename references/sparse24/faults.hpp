// Defects of 2:4 pruning and compression as one switch, and the rows that name them.
#pragma once

#include <string_view>
#include <vector>

#include "harness/kernel.hpp"

namespace parity::sparse24 {

enum class Defect : std::uint8_t {
  None,
  TiesLow,
  OtherOrder,
  KeepsThree,
  NotReordered,
  IndicesSwapped,
  WrongSecond,
  Unvalidated,
  ZerosPositive,
  NotQuieted,
};

Defect defect_of(std::string_view fault);
std::vector<FaultDef> faults_of(const std::vector<Defect>&);

}  // namespace parity::sparse24
