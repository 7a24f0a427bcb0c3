#include "harness/reduced.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity {
namespace {

constexpr char kMark = '~';
constexpr std::array<std::string_view, 7> kNames = {"no",  "zero", "one",  "sign",
                                                    "int", "pow2", "first"};

std::string in_fill(std::string_view tensor) {
  std::string text(tensor);
  std::ranges::replace(text, '/', '.');
  return text;
}

double simpler(Simpler how, double v) {
  if (std::isnan(v)) return how == Simpler::Zero ? 0 : how == Simpler::One ? 1 : v;
  switch (how) {
    case Simpler::Zero:
      return 0;
    case Simpler::One:
      return 1;
    case Simpler::Sign:
      return v > 0 ? 1 : v < 0 ? -1 : v;
    case Simpler::Int:
      return std::clamp(std::nearbyint(v), -3.0, 3.0);
    case Simpler::Power:
      return v == 0 || std::isinf(v) ? v : std::copysign(std::exp2(std::ilogb(v)), v);
    case Simpler::No:
    case Simpler::First:
      return v;
  }
  return v;
}

}  // namespace

std::string_view name(Simpler how) { return kNames.at(static_cast<std::size_t>(how)); }

ReducedFill ReducedFill::parse(std::string_view text) {
  const std::size_t mark = text.find(kMark);
  ReducedFill reduced{.fill = std::string(text.substr(0, mark))};
  if (mark == std::string_view::npos) return reduced;
  for (const std::string& part : split(text.substr(mark + 1), ',')) {
    const std::size_t equals = part.rfind('=');
    const std::string word = equals == std::string::npos ? part : part.substr(equals + 1);
    const auto known = std::ranges::find(kNames, word);
    if (equals == std::string::npos || equals == 0 || known == kNames.end())
      throw UsageError("fill '" + std::string(text) + "': '" + part +
                       "' is not TENSOR=zero, one, sign, int, pow2 or first");
    reduced.tensors[part.substr(0, equals)] = static_cast<Simpler>(known - kNames.begin());
  }
  return reduced;
}

std::string ReducedFill::str() const {
  std::string text = fill;
  char before = kMark;
  for (const auto& [tensor, how] : tensors) {
    text += before + tensor + "=" + std::string(name(how));
    before = ',';
  }
  return text;
}

Simpler ReducedFill::of(std::string_view tensor) const {
  if (tensors.empty()) return Simpler::No;
  auto found = tensors.find(in_fill(tensor));
  if (found == tensors.end()) found = tensors.find("*");
  return found == tensors.end() ? Simpler::No : found->second;
}

void simplify(Simpler how, std::span<double> row) {
  if (how == Simpler::No) return;
  if (how == Simpler::First) {
    if (!row.empty()) std::fill(row.begin() + 1, row.end(), 0.0);
    return;
  }
  for (double& v : row) v = simpler(how, v);
}

}  // namespace parity
