// What all ranks recorded, put together: whole gradients and parameters by their placements, norms,
// layout and traces, under the names of fsdp2.h5.
#pragma once

#include "harness/bound.hpp"
#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

// Names of units are padded to `name_width` characters.
std::vector<ExpectedTensor> tables(const Layout&, const Config&, const std::vector<RankRecord>&,
                                   std::int64_t name_width);

// Which stage's backward leaves the gradient of a parameter: the first that uses it.
std::size_t owner(const std::string& parameter, const std::vector<Stage>&);

}  // namespace parity::fsdp
