// Chain A, one level of fp32 scale over e4m3 block scales, formed without a lower bound and with
// one rounding before the e4m3 cast: Transformer Engine's default and torchao's training kernels.
//
//   S_enc = min(2688 / amax, FLT_MAX); 1 if amax is 0 or that is 0        mult = S_enc fl(1/6)
//   S_dec = 1 / S_enc     s = e4m3(min(bamax mult, 448))       enc = min(1 / (s S_dec), FLT_MAX)
//   code = e2m1(x enc)
//
// Options of the chains that run it:
//   tile=16       a scale for 16x16 elements: that of the weights, the same for x and x^T
//   transpose=1   codes_t, scales_t: x^T quantised along the rows of x
//   rht=1         ... of x^T after the random Hadamard transform, with an amax of its own; `signs`
//                 is an input. f32 has no order of summation of its own: there the column copy is
//                 that of an input `rht_given`, and `rht_t` is judged for itself
//   row_scaled=1  an amax for each row (of x^T: for each of its rows)
//   sr=1          codes rounded stochastically, by the bytes of the inputs `rbits` and `rbits_t`
// A size M with parts is one group (expert) a part, each with amaxes of its own.
#pragma once

#include "references/quantize/nvfp4.hpp"

namespace parity::quantize {

// How the block's scale and factor are formed.
enum class FormA : std::uint8_t {
  OneRounding,   // as above
  TwoRoundings,  // s = e4m3(clamp(fl(bamax/6) S_enc, 2^-6, 448)): torchao 0.18.0's kernels
  Bf16Factor     // enc = bf16(min(S_enc / s, largest bf16)): Transformer Engine's fast math
};

struct ChainA {
  float amax = 0;
  float encode = 0;  // S_enc
  float decode = 0;  // S_dec
  FormA form = FormA::OneRounding;
  Defect defect = Defect::None;

  ChainA(float tensor_amax, Defect, float bound = kMaxE4m3);
  BlockScale block(float block_amax) const;
  BlockScale of_scale(float scale) const;  // before its rounding to e4m3
  // Transformer Engine's dequantisation: code * ((s * amax) * fl(1/2688)).
  float value(float code, float scale) const;
};

Result run_chain_a(const Case&, const Tensors& inputs, const E2m1Policy&, FormA, Defect);

// A chain that is one form of chain A and nothing beside: rows of whole blocks, no policy of its
// own.
Expected chain_a_expected(const Case&, const Tensors& inputs, FormA, std::string_view fault);

// codes, scales, amax_row, amax_col, and what options ask for.
std::vector<TensorSpec> chain_a_outputs(const Case&);
// x, and by option signs, rht_given, rbits, rbits_t.
std::vector<TensorSpec> chain_a_inputs(const Case&);
// Codes and scales of x^T, rht_t: by option; `swizzled`: scales_swizzled_t in place of scales_t.
std::vector<TensorSpec> transposed_specs(const Case&);
std::vector<std::int64_t> groups_of(const Case&);  // rows of each; empty: there are none
// What has no such case, "" = none of it; rows and groups must be multiples of 16 for the transform
// and for tiles (`padded`: for the transform alone).
std::string chain_a_refuses(const Case&, bool padded);

// `ragged`: rows may end in a short block.
std::vector<FaultDef> chain_a_faults(bool ragged);
std::vector<FaultDef> transform_faults();

}  // namespace parity::quantize
