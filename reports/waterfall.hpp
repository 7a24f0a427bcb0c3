// Where the error of a whole model comes from: a run of the whole, and a run of every layer by
// itself on the truth's input (option isolated=1), side by side (tolerance.md §19). Own is what a
// layer adds by itself, inherited what the whole run has beyond that; the budget of a layer is made
// of the noise of its own arithmetic alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/record.hpp"

namespace parity::reports {

struct LayerError {
  std::string layer = {};  // "layer7", "head"
  bool backward = false;
  double inherited = 0, own = 0, budget = 0;  // rel L2 of the stream behind it, or of its gradient
  // Of everything that the layer computes by itself in this direction, with the gradients of its
  // parameters, what is beyond a limit: in the forward the first, in the backward the farthest;
  // null: nothing is.
  const TensorRecord* over = nullptr;
};

struct Waterfall {
  const CaseRecord* whole = nullptr;
  const CaseRecord* alone = nullptr;
  std::vector<LayerError> layers = {};  // forward, then backward in the order of the computation
  const LayerError* first() const;      // over its own budget; null: none is
};

// Of every pair of records that belong together.
std::vector<Waterfall> waterfalls(const std::vector<CaseRecord>&);

std::string sentence(const Waterfall&);           // which layer is the first over its budget
std::string console_waterfall(const Waterfall&);  // a line a layer, both directions
std::string to_json_line(const Waterfall&);       // kind "waterfall"
std::string html_waterfall(const Waterfall&);     // heading, picture, table of what is over

}  // namespace parity::reports
