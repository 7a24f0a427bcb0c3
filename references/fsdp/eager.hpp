// The same training in one process, without shards: every rank's whole gradients, added in the
// order that the sharded run states. It shares the layout's arithmetic with the engine (an order is
// stated by position in a unit's buffer) and nothing else.
#pragma once

#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

using Values = std::vector<std::vector<float>>;  // by parameter

struct EagerStep {
  std::vector<std::optional<std::vector<float>>> gradients = {};  // whole, reduced, unclipped
  float clip_total = 0;
  Values parameters = {};
};
std::vector<EagerStep> train_eager(const std::vector<const Model*>& ranks, const Config&,
                                   Values whole);

}  // namespace parity::fsdp
