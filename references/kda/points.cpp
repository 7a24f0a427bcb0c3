#include "references/kda/points.hpp"

#include <bit>
#include <cmath>
#include <utility>

#include "harness/failure.hpp"

namespace parity::kda {
namespace {

constexpr std::pair<std::string_view, Point Points::*> kNames[] = {
    {"qk", &Points::qk},
    {"aqk", &Points::aqk},
    {"m", &Points::m},
    {"w", &Points::w},
    {"u", &Points::u},
    {"kg", &Points::kg},
    {"qg", &Points::qg},
    {"v_new", &Points::v_new},
    {"h", &Points::h},
    {"state", &Points::state},
    {"beta_k", &Points::beta_k},
    {"kbg", &Points::kbg},
    {"beta_v", &Points::beta_v},
    {"products", &Points::products},
    {"diagonal", &Points::diagonal},
    {"between", &Points::between},
    {"merge", &Points::merge},
    {"residual", &Points::residual},
    {"adjoint", &Points::adjoint},
    {"dv_new", &Points::dv_new},
    {"dh", &Points::dh},
    {"h_dh", &Points::h_dh},
    {"dw", &Points::dw},
    {"kge", &Points::kge},
    {"dm", &Points::dm},
    {"dqk", &Points::dqk},
    {"g", &Points::g},
    {"dbias", &Points::dbias},
    {"o", &Points::o},
    {"d_diagonal", &Points::d_diagonal},
    {"d_parts", &Points::d_parts}};

// Formats that are the upper bits of f32: `drop` low bits go. A carry out of the fraction is the
// right next binade; NaN and infinity are left alone.
template <class Add>
void drop_bits(std::span<float> x, int drop, Add add) {
  const std::uint32_t mask = ~((1U << drop) - 1);
  for (float& value : x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7f800000U) == 0x7f800000U) continue;
    value = std::bit_cast<float>((bits + add(bits)) & mask);
  }
}

// Nearest on a grid shifted by a random part of its step, for values that are not on it: an
// independent error of the same size as rounding to nearest makes. (Stochastic rounding would make
// one sqrt(2) times as large.)
void dither_bits(std::span<float> x, int drop, const Noise& noise) {
  const std::uint32_t low = (1U << drop) - 1;
  for (float& value : x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7f800000U) == 0x7f800000U || (bits & low) == 0 || (bits & 0x7fffffffU) <= low)
      continue;
    const std::uint32_t shift = noise.of(bits) & low;
    value = std::bit_cast<float>(((bits + shift) & ~low) - shift + (low >> 1));
  }
}

}  // namespace

void jitter(std::span<float> x, const Noise& noise) {
  constexpr std::uint32_t kEnd = 0xff;  // a value that ends in eight zero bits was exact
  for (float& value : x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & kEnd) == 0) continue;
    const double part = static_cast<double>(noise.of(bits)) * 0x1p-31 - 1;
    value = static_cast<float>(static_cast<double>(value) * (1 + part * 0x1p-24));
  }
}

void Point::operator()(std::span<float> x, const Noise& noise) const {
  if (!on()) {
    if (noise.on) jitter(x, noise);
    return;
  }
  const bool dithered = noise.on && mode == Rounding::NearestEven;
  if (to == Dtype::BF16 || to == Dtype::TF32) {
    const int drop = to == Dtype::BF16 ? 16 : 13;
    const std::uint32_t low = (1U << drop) - 1, half = low >> 1;
    if (dithered)
      dither_bits(x, drop, noise);
    else if (mode == Rounding::NearestEven)
      drop_bits(x, drop, [&](std::uint32_t bits) { return half + ((bits >> drop) & 1U); });
    else
      drop_bits(x, drop, [](std::uint32_t) { return 0U; });
    return;
  }
  for (float& value : x) {
    const double exact = static_cast<double>(value);
    value = static_cast<float>(
        dithered
            ? round_to(to, exact,
                       Conversion{.rounding = Rounding::Stochastic,
                                  .random_bits = noise.of(std::bit_cast<std::uint32_t>(value))})
            : round_to(to, exact, mode));
  }
}

Points points_of(const Contract& contract) {
  Points points;
  for (const RoundingPoint& declared : contract.roundings) {
    bool found = false;
    for (const auto& [name, member] : kNames)
      if (name == declared.where) {
        points.*member = Point{declared.to, declared.mode};
        found = true;
      }
    if (!found)
      throw Failure("kda: contract '" + contract.name + "' rounds at '" + declared.where +
                    "', which the base does not know");
  }
  return points;
}

}  // namespace parity::kda
