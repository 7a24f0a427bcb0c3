// Parts of stored tensors, named by a path with a range behind it: "grads/params/wqkv.weight[0:36]"
// is rows 0 to 35, "params/experts.gate_up_proj[3,0:6]" those of the fourth block. One tensor of a
// file may hold several of an op.
#pragma once

#include <string>
#include <string_view>

#include "harness/tensor.hpp"

namespace parity::golden {

std::string_view whole_path(std::string_view path);  // without the range
// The part of `whole` that the range of `path` names (whole itself without one): leading axes, each
// an index or begin:end. GoldenError where it does not lie inside.
Tensor part_of(Tensor whole, std::string_view path);

}  // namespace parity::golden
