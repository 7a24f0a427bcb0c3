// The smallest case on which a candidate still fails: first its sizes, then its values, then its
// options become simpler, as long as it goes on failing. Pure: whoever calls says what fails.
#pragma once

#include <functional>
#include <vector>

#include "harness/case.hpp"

namespace parity::cli {

struct ShrinkLimits {
  int trials = 500;
  double seconds = 55;
};

struct Shrunk {
  Case problem = {};
  int trials = 0;
  bool complete = true;  // false: the limits ended it
};

// `fails`: whether the case exists and its candidate fails it. `inputs`: names of the float inputs
// of a case, in order.
Shrunk shrink(const Case& start, const std::function<bool(const Case&)>& fails,
              const std::function<std::vector<std::string>(const Case&)>& inputs,
              const ShrinkLimits& = {});

}  // namespace parity::cli
