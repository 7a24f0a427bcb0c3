// torchao's Int4WeightFakeQuantizer: int4 groups of a weight whose activations are bf16 or fp8. Its
// scales are not detached, so that the elements that fix a scale get a gradient through it.
//
//   activations bf16, everything f32, by groups [min, max]:
//     s = max(max - min, 1e-6)/15          zp = min + 8 s       c = clamp(round((x - min)/s), 0,
//     15)
//     - 8 value R(c s + zp)
//     dx = R(m ((g s)/s)), m = [integer in 0..15];  ds = sum(g c) + 8 sum(g) - sum(m g (x - min)/s)
//     the max gets + ds/15, the min + sum(g) - sum(m g) - ds/15, shared evenly by ties;
//     no ds/15 where max - min < 1e-6
//   activations fp8, in the data's format:
//     w = float8 fake quantisation of the row (references/fp8/fake_row.hpp), s = max(R(amax_w/8),
//     R(1e-6)), [-8, 7], the integer form of affine.hpp
//     gw = R(R(m R(g s)) inv), and where |w| = amax_w: + sign(w) ds/8, ds = sum(g q) - sum(m g w/s)
//     dx = the float8 rule with gw as cotangent
//   source  torchao 0.18.0, quantization/qat/fake_quantizer.py
#pragma once

#include "references/integer/affine.hpp"

namespace parity::integer {

struct WeightFakeQuant {
  std::vector<float> values = {};
  // One value an element, and by how much it may differ absolutely: sums over a group or a row have
  // no order of their own. Empty without a cotangent.
  std::vector<double> gradient = {};
  std::vector<double> allowance = {};
};

struct WeightRequest {
  Dtype data = Dtype::F32;
  std::int64_t group = 32;
  bool activations_fp8 = false;
  Defect defect = Defect::None;
};
WeightFakeQuant fake_quantise_weight(const WeightRequest&, const Matrix& x,
                                     const std::vector<float>& cotangent);

}  // namespace parity::integer
