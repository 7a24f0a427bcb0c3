#include "harness/bound.hpp"

#include <algorithm>
#include <array>

#include "harness/noise.hpp"

namespace parity {

std::string_view name(Fidelity fidelity) {
  constexpr std::array<std::string_view, 3> kNames = {"twin", "faithful", "partial"};
  return kNames.at(static_cast<std::size_t>(fidelity));
}

double ratio_factor(Fidelity fidelity) { return fidelity == Fidelity::Partial ? 2 : 1.15; }

std::string_view name(BoundKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"exact", "proved", "estimated"};
  return kNames.at(static_cast<std::size_t>(kind));
}

const RoundingPoint* Contract::rounding(std::string_view where) const {
  const auto it = std::ranges::find(roundings, where, &RoundingPoint::where);
  return it == roundings.end() ? nullptr : &*it;
}

std::string Contract::key() const {
  std::string text =
      name + "|" + std::string(parity::name(accumulate)) + "|" + std::to_string(chunk);
  for (const RoundingPoint& point : roundings)
    text += "|" + point.where + ":" + std::string(parity::name(point.to)) +
            std::to_string(static_cast<int>(point.mode));
  return text;
}

const ExpectedTensor* Expected::find(std::string_view name) const {
  const auto it =
      std::ranges::find(tensors, name, [](const ExpectedTensor& t) { return t.spec.name; });
  return it == tensors.end() ? nullptr : &*it;
}

const Values* Base::find(std::size_t run, std::string_view name) const {
  if (run >= runs.size()) return nullptr;
  const auto it = std::ranges::find(runs[run], name, &Values::name);
  return it == runs[run].end() ? nullptr : &*it;
}

const Noise* Base::noise_of(std::string_view name) const {
  const auto it = std::ranges::find(noise, name, &Noise::name);
  return it == noise.end() ? nullptr : &*it;
}

}  // namespace parity
