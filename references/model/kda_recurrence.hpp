// A second opinion on kda, written differently: LibTorch in fp64, transition matrices instead of
// rank-one updates, gradients by autograd.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/tensor.hpp"

namespace parity::model {

// Outputs and gradients by the names of the op's outputs ("o", "g", "grads/A_log"); states as the
// case lays them out.
std::map<std::string, std::vector<double>> kda_by_autograd(const Case&, const Tensors& inputs);

}  // namespace parity::model
