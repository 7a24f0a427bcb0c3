// modelopt's MXFP4QTensor: e2m1 in blocks of 32.
//
//   byte  ceil(max(log2f(fl(amax/6)), -127)) + 127; open in a block with an infinity or a NaN
//   code  of |y|, y = fl(x / 2^(byte-127)), ties DOWN; the sign bit is y <= 0, so that 0 has code 8
//   value fl(code 2^(byte-127)), -0 for code 8
//
//   source   nvidia-modelopt 0.47.0, torch/quantization/qtensor/mxfp4_tensor.py
#include <array>
#include <cmath>

#include "references/mx/quantise.hpp"

namespace parity::mx {
namespace {

constexpr std::array<float, 7> kMidpoints = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5};

std::uint8_t scale_of(float amax, Defect defect) {
  if (!std::isfinite(amax)) return 0;
  const float log = std::max(log2_f32(amax / 6.0F), -127.0F);
  return static_cast<std::uint8_t>(
      static_cast<int>(defect == Defect::Floor ? std::floor(log) : std::ceil(log)) + kBias);
}

std::uint8_t code(float y, Defect defect) {
  if (defect == Defect::TiesToEven) return code_of(*element_of("e2m1"), y == 0 ? -0.0F : y);
  unsigned magnitude = 0;
  for (const float midpoint : kMidpoints) {
    const float a = std::fabs(y);
    const bool above = defect == Defect::HalfAway ? a >= midpoint : a > midpoint;
    magnitude += above ? 1 : 0;
  }
  const bool negative = defect == Defect::NegativeZero ? y < 0 : y <= 0;
  return static_cast<std::uint8_t>(magnitude | (negative ? 8U : 0U));
}

std::vector<TensorSpec> outputs_of(const Case& c) { return outputs(c, Dtype::E2M1); }

Expected quantize(const Case& c, const Tensors& inputs, std::string_view fault) {
  if (const std::string why = refuses(c); !why.empty()) return {.refused = why};
  const Defect defect = defect_of(fault);
  Chain chain = plain_chain(*element_of("e2m1"), block_of(c), defect);
  chain.scale = [=](float amax) { return scale_of(amax, defect); };
  chain.scaled = [=](float v, std::uint8_t scale) { return v / scale_value(scale, defect); };
  chain.cast = [=](float y) { return code(y, defect); };
  const Matrix x = quantize::matrix_of(inputs.at("x"));
  Quantised q = quantise(x, chain);
  // The byte of a block that is not finite is an undefined conversion, and with it everything else.
  const std::vector<float> maxima = block_maxima(x, block_of(c), Defect::None);
  std::vector<std::uint8_t> open_scales;
  for (const float amax : maxima) open_scales.push_back(std::isfinite(amax) ? 0 : 1);
  for (std::int64_t i = 0; i < std::ssize(q.open); ++i)
    q.open[static_cast<std::size_t>(i)] = open_scales[static_cast<std::size_t>(
        i / x.columns * q.blocks + i % x.columns / block_of(c))];
  Answer answer(outputs_of(c));
  give(answer, q, defect);
  answer.open("scales", open_scales);
  answer.open("dequant", q.open);
  return answer.take();
}

const Register chain{ChainDef{
    .name = "mxfp4_modelopt",
    .what = "byte = ceil(log2f(amax/6)) + 127; ties of e2m1 down, zero has code 8",
    .quantize = quantize,
    .outputs = outputs_of,
    .groups = {"mxfp4_modelopt"},
    .faults = faults_of({Defect::Floor, Defect::TiesToEven, Defect::HalfAway, Defect::NegativeZero,
                         Defect::AmaxSigned, Defect::NibblesSwapped, Defect::FlushedDecode}),
    .import = import_torchao,
}};

}  // namespace
}  // namespace parity::mx
