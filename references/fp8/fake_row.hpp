// Float8 fake quantisation of one row and its gradient, for quantisers that go on from its values
// (torchao's int4 weights under fp8 activations):
//   a = max(R(amax), R(1e-12)), s = R(a/448)        q = e4m3(clamp(x/s, -448, 448)), value R(q s)
//   m = [|x/s| <= 448], c = e4m3(g s) without saturation; dx = R(m c/s), at the max element(s)
//   + sign(x)/ties ds/448, ds = sum(g q) - sum(m c x/s^2)
//   source  torchao 0.18.0, quantization/qat/fake_quantizer.py
#pragma once

#include <span>
#include <vector>

#include "harness/dtype.hpp"

namespace parity::fp8 {

struct FakeRow {
  float amax = 0;
  float scale = 0;
  bool floored = false;  // the scale came from the lower bound, and has no gradient
  std::vector<float> codes = {};
  std::vector<float> values = {};
};
FakeRow fake_row(Dtype data, std::span<const float> x);

struct FakeRowGradient {
  std::span<const double> cotangent;
  std::span<const double> uncertain;  // by how much each cotangent may differ absolutely
  double sum_allowance = 0;           // by how much a sum over the row may
  bool detached = false;              // no gradient through the scale
};
// Appends to `gradient`, and to `allowance` by how much each element may differ absolutely: sums
// have no order of their own, and a cotangent that is open may fall to the neighbouring code.
void fake_row_gradient(Dtype data, std::span<const float> x, const FakeRow&, const FakeRowGradient&,
                       std::vector<double>& gradient, std::vector<double>& allowance);

}  // namespace parity::fp8
