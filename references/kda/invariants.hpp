// What must not change a bit, where a kernel's contract claims it, and answers that are wrong in a
// way that a loose bound would not see.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/registry.hpp"

namespace parity::kda {

std::vector<Invariant> invariant_list();

// "history": states forgotten every 16 tokens, and the initial state at once.
std::vector<std::pair<std::string, Evaluation>> wrong_answers(const Case&, const Tensors& inputs);

}  // namespace parity::kda
