// What a wrong tensor often is, whatever the op: a right one that was scaled, negated, shifted,
// narrowed, transposed, or left out in part. Each with words for what was done.
#pragma once

#include <string>
#include <vector>

#include "harness/bound.hpp"

namespace parity {

struct Form {
  std::string what = {};  // "times 0.125 (1/sqrt(K))", "shifted along t by 1"
  std::vector<double> value = {};
  bool fitted = false;  // to what was seen, and not to a constant that anybody knows
};

// Of one output: `right` is what it should hold, `seen` what it holds (a factor is fitted to it).
// Other outputs of the same shape are candidates for a mix-up.
std::vector<Form> forms(const Case&, const TensorSpec&, const std::vector<double>& right,
                        const std::vector<double>& seen, const Evaluation& others);

}  // namespace parity
