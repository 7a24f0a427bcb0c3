// torchao's `to_mx` of the release 0.18.0, eager. It differs from 36027d82 at the edges:
//
//   floor, ceil, even   only a NaN makes byte 255; amax = inf has E = 255, M = 0 like any number
//                       y = fl(x / max(2^(byte-127), 2^-126)): a block of byte 0 comes back halved
//   rceil               byte = clamp(ceil(log2f(fl(amax/max))), -127, 127) + 127: one low just
//   above
//                       max 2^k where log2f cannot tell; y = clamp(fl(x r), -max, max), where
//                       r = 1 for byte 0, so that the block becomes zero
//
//   source   torchao 0.18.0, prototype/mx_formats/mx_tensor.py
#include <algorithm>
#include <cmath>
#include <limits>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

std::uint8_t scale_of(const Element& e, std::string_view mode, float amax, Defect defect) {
  if (std::isnan(amax)) return 0xFF;
  if (mode == "rceil" && defect != Defect::Floor) {
    const float d = amax / e.max;
    if (defect == Defect::ExactCeil) return std::min(rounded_up(d), std::uint8_t{254});
    return byte_of(static_cast<int>(std::clamp(std::ceil(log2_f32(d)), -127.0F, 127.0F)));
  }
  if (mode == "even") amax = rounded_even(e, amax);
  const bool up = mode == "ceil" && mantissa_field(amax) != 0;
  return byte_of(exponent_field(amax) - kBias - e.max_pow2 + (up ? 1 : 0));
}

float scaled(std::string_view mode, float x, std::uint8_t scale, Defect defect) {
  const bool repaired = defect == Defect::RepairedEdge;
  if (mode == "rceil") return x * (scale == 0 && !repaired ? 1.0F : reciprocal(scale));
  if (scale == 0xFF) return x / std::numeric_limits<float>::infinity();
  return x / (repaired ? scale_value(scale) : std::max(scale_value(scale), 0x1p-126F));
}

Chain chain_of(const Element& e, const std::string& mode, Defect defect) {
  Chain chain = plain_chain(e, kBlock, defect);
  chain.scale = [=](float amax) { return scale_of(e, mode, amax, defect); };
  chain.scaled = [=](float x, std::uint8_t scale) { return scaled(mode, x, scale, defect); };
  return chain;
}

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  return run_torchao(c, inputs, fault, chain_of);
}

const Register chain{ChainDef{
    .name = "mx_torchao_018",
    .what = "the release's edges: byte 0 halved or zeroed, rceil by log2f, no NaN block of an inf",
    .quantize = quantize,
    .outputs = torchao_outputs,
    .groups =
        {"mx_torchao_018_e2m1_ceil",  "mx_torchao_018_e2m1_even",  "mx_torchao_018_e2m1_floor",
         "mx_torchao_018_e2m1_rceil", "mx_torchao_018_e2m3_ceil",  "mx_torchao_018_e2m3_even",
         "mx_torchao_018_e2m3_floor", "mx_torchao_018_e2m3_rceil", "mx_torchao_018_e3m2_ceil",
         "mx_torchao_018_e3m2_even",  "mx_torchao_018_e3m2_floor", "mx_torchao_018_e3m2_rceil",
         "mx_torchao_018_e4m3_ceil",  "mx_torchao_018_e4m3_even",  "mx_torchao_018_e4m3_floor",
         "mx_torchao_018_e4m3_rceil", "mx_torchao_018_e5m2_ceil",  "mx_torchao_018_e5m2_even",
         "mx_torchao_018_e5m2_floor", "mx_torchao_018_e5m2_rceil"},
    .faults = faults_of({Defect::Floor, Defect::ExactCeil, Defect::RepairedEdge, Defect::Bias128,
                         Defect::CastOverflow, Defect::FlushedDecode, Defect::AmaxDropsNan}),
    .import = import_torchao,
}};

}  // namespace
}  // namespace parity::mx
