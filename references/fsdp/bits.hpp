// Results that must be equal to the bit, as expected tensors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/bound.hpp"

namespace parity::fsdp {

// Values that lie on the grid of `dtype`.
ExpectedTensor exact(std::string name, Role, Dtype, std::vector<Dim>, std::span<const double>);
ExpectedTensor exact(std::string name, Role, Dtype, std::vector<Dim>, std::span<const float>);
// Lines of text, padded with zero bytes to the longest or to `width`: U8 [lines, width].
ExpectedTensor lines(std::string name, const std::vector<std::string>&, std::int64_t width = 1);

// The bound of results of which nothing is left open: equality, signs of zeros too.
Bound every_bit(std::string_view why);

std::vector<float> floats(const Tensor&);
std::vector<std::string> text_lines(const Tensor&);

}  // namespace parity::fsdp
