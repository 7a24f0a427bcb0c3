// Stochastic rounding to e2m1 from named random bits: 8 of them an element, added below the kept
// mantissa, so that |y| steps away from zero where the carry says so (PTX ISA, cvt.rs.satfinite).
//   t = |y| + (r/256) step(|y|);   q = floor(t / step(t)) step(t), at most 6;   step = .5, 1, 2
// NaN gives code 7; an exact grid point never moves. P(up) = floor(256 frac) / 256: biased toward
// zero by up to a 256th of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/tensor.hpp"
#include "references/quantize/faults.hpp"

namespace parity::quantize {

std::uint8_t stochastic_e2m1(float y, std::uint8_t random);

// Codes by the bytes of an input, one an element.
std::function<std::uint8_t(float y, std::int64_t index)> stochastic_code(const Tensors& inputs,
                                                                         std::string_view bits,
                                                                         Defect);

}  // namespace parity::quantize
