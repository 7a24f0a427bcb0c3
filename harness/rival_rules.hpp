// Rules by which others accept a kernel, restated: what they would have let through.
#pragma once

#include <span>
#include <string_view>

#include "harness/dtype.hpp"

namespace parity {

// One tensor: a candidate, the truth in fp64, and the same formulas at the candidate's precision.
struct RuleInput {
  std::span<const double> candidate = {}, truth = {}, base = {};
  Dtype dtype = Dtype::F32;
};

struct RivalRule {
  std::string_view name = {};   // "NMSE 5e-4"
  std::string_view where = {};  // who judges by it
  std::string_view what = {};   // the formula
  bool (*passes)(const RuleInput&) = nullptr;
};
std::span<const RivalRule> rival_rules();

}  // namespace parity
