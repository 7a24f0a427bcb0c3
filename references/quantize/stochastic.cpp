#include "references/quantize/stochastic.hpp"

#include <algorithm>
#include <cmath>

#include "harness/numeric/formats.hpp"

namespace parity::quantize {
namespace {

double step_of(double a) { return a < 2 ? 0.5 : a < 4 ? 1 : 2; }

}  // namespace

// In double every operation below is exact: y has 24 bits, and what lies more than 2^-29 of a step
// below it cannot carry.
std::uint8_t stochastic_e2m1(float y, std::uint8_t random) {
  if (std::isnan(y)) return 7;
  const auto sign = static_cast<std::uint8_t>(std::signbit(y) ? 8 : 0);
  const double a = std::min(std::fabs(static_cast<double>(y)), 6.0);
  const double t = a + random / 256.0 * step_of(a);
  const double q = std::min(std::floor(t / step_of(t)) * step_of(t), 6.0);
  return static_cast<std::uint8_t>(e2m1_from_float(static_cast<float>(q)) | sign);
}

std::function<std::uint8_t(float y, std::int64_t index)> stochastic_code(const Tensors& inputs,
                                                                         std::string_view bits,
                                                                         Defect defect) {
  const std::span<const std::uint8_t> bytes = inputs.at(bits).as<std::uint8_t>();
  return [bytes, defect](float y, std::int64_t index) -> std::uint8_t {
    const auto i = static_cast<std::size_t>(index);
    switch (defect) {
      case Defect::StochasticZero:
        return 0;
      case Defect::StochasticNearest:
        return e2m1_from_float(y);
      case Defect::StochasticOneBit:
        return stochastic_e2m1(y, static_cast<std::uint8_t>(bytes[i] & 0x80));
      case Defect::StochasticLanes:  // four elements of a word take its first byte
        return stochastic_e2m1(y, bytes[i / 4 * 4]);
      case Defect::StochasticUpward: {  // toward +inf, as if the sign were no part of it
        const auto other = static_cast<std::uint8_t>(std::signbit(y) ? 255 - bytes[i] : bytes[i]);
        return stochastic_e2m1(y, other);
      }
      default:
        return stochastic_e2m1(y, bytes[i]);
    }
  };
}

}  // namespace parity::quantize
