// Defects of matrix products: in what is read, in how it is added, in what follows.
#pragma once

#include <string_view>
#include <vector>

#include "references/gemm/problem.hpp"

namespace parity::gemm {

[[nodiscard]] std::vector<FaultDef> faults();

// The operands as a kernel with the fault reads them.
[[nodiscard]] Tensors as_read(const Problem&, const Tensors&, std::string_view fault);
// The schedule and the adder as the fault has them.
struct Faulty {
  tensorcore::Schedule schedule = {};
  tensorcore::Defect defect = {};
};
[[nodiscard]] Faulty faulty(const tensorcore::Schedule&, std::string_view fault);

}  // namespace parity::gemm
