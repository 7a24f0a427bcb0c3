#include "references/fsdp/norm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace parity::fsdp {
namespace {

using dist::rounded;

// Eight running sums of products rounded by themselves, added from the first; the rest of up to
// seven elements in fours, and what is left of those fused.
float two_norm(std::span<const float> x) {
  constexpr std::size_t kLanes = 8, kUnroll = 4;
  std::array<float, kLanes> lanes{};
  const std::size_t body = x.size() / kLanes * kLanes, tail = x.size() - body;
  for (std::size_t i = 0; i < body; ++i) lanes[i % kLanes] += x[i] * x[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  for (std::size_t i = 0; i < tail; ++i) {
    const float v = x[body + i];
    sum = i < tail / kUnroll * kUnroll ? sum + v * v : std::fma(v, v, sum);
  }
  return std::sqrt(sum);
}

}  // namespace

float local_norm(std::span<const float> x, double p, Dtype dtype) {
  if (p == 2) return rounded(dtype, two_norm(x));
  float norm = 0;
  for (const float v : x) {
    const float size = std::fabs(v);
    if (p == 1)
      norm += size;
    else
      norm = std::isnan(size) || std::isnan(norm) ? std::nanf("") : std::max(norm, size);
  }
  return rounded(dtype, norm);
}

float to_partial(float norm, double p, Dtype dtype) {
  return p == 2 ? rounded(dtype, norm * norm) : norm;
}

float from_partial(float sum, double p, Dtype dtype) {
  return p == 2 ? rounded(dtype, std::sqrt(sum)) : sum;
}

float clip_coefficient(float total, double max_norm, Dtype dtype) {
  const float above = rounded(dtype, total + 1e-6f);
  const float inverse = rounded(dtype, 1.f / above);
  const float c = rounded(dtype, inverse * static_cast<float>(max_norm));
  return std::isnan(c) ? c : std::min(c, 1.f);
}

}  // namespace parity::fsdp
