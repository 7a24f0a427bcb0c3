// Inputs that ops with experts share.
#pragma once

#include <vector>

#include "references/blocks/moe.hpp"

namespace parity::net {

// params/experts.<e>.{w1,w3 [F,W], w2 [W,F]}.weight for each of E experts; `width` is W's letter.
void add_experts(std::vector<TensorSpec>&, const Case&, const Dim& width);
// Option act=situ or silu with situ_beta (4) and situ_linear_beta (25).
Unit unit_of(const Case&, std::string_view usual);
// Gradient spec of an input or parameter.
TensorSpec gradient_of(const TensorSpec& input);

}  // namespace parity::net
