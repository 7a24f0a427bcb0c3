// The gradients of one case, parameter by parameter (tolerance.md §11c): the same numbers in the
// terminal, the page and the JSON. And its taps, layer by layer: where an error comes in first.
#pragma once

#include <string>
#include <vector>

#include "harness/record.hpp"
#include "reports/reports.hpp"

namespace parity::reports {

struct GradientRow {
  const TensorRecord* tensor = nullptr;
  std::string name = {};  // the parameter's, or the tensor's where it is of none
  double norm = 0;        // |g*|
  double share = 0;       // of the squared error of all gradients
};
// Widest first: by r = max e / allowed, NaN before everything.
std::vector<GradientRow> gradient_rows(const CaseRecord&);
bool has_parameters(const CaseRecord&);

// Whether the run went astray, and in which layer first: of the results named "tap/layer<i>.<what>"
// in forward order, then of their gradients in backward order, the first that is beyond its bound.
struct Astray {
  const TensorRecord* tensor = nullptr;     // null: nowhere
  std::string layer = {};                   // "layer7"
  const TensorRecord* parameter = nullptr;  // of that layer, the gradient farthest beyond its bound
  bool backward = false;
};
Astray first_astray(const CaseRecord&);
std::string sentence(const Astray&);  // "" where nothing went astray

// The table as lines; at most `rows` of them and how many more there are.
std::string console_gradients(const CaseRecord&, std::size_t rows);

}  // namespace parity::reports
