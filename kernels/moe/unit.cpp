#include "kernels/moe/unit.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/kda/micro.hpp"

namespace parity::moe_kernel {
namespace {

constexpr std::int64_t kPart = 64;

// tanh x = x + x^3 P(x^2) below 0.625 (coefficients of Moshier's Cephes library, tanhf), and
// sigmoid(2x) - sigmoid(-2x) beyond, where little cancels. 1 - tanh^2 = 4 sigmoid(2x) sigmoid(-2x).
void tanh_part(const float* x, std::int64_t n, float* t, float* slope) {
  float twice[kPart], up[kPart], down[kPart];
  for (std::int64_t i = 0; i < n; ++i) twice[i] = 2 * x[i];
  kda_kernel::best_micro().sigmoid(twice, n, up, down);
  for (std::int64_t i = 0; i < n; ++i) {
    const float z = x[i] * x[i];
    float p = -5.70498872745e-3F;
    p = p * z + 2.06390887954e-2F;
    p = p * z - 5.37397155531e-2F;
    p = p * z + 1.33314422036e-1F;
    p = p * z - 3.33332819422e-1F;
    const float near = x[i] + x[i] * z * p, far = up[i] - down[i];
    t[i] = z < 0.625F * 0.625F ? near : far;
    slope[i] = 4 * up[i] * down[i];
  }
}

// b tanh(x / b) and its slope; b = 0: x itself.
void limited(const float* x, std::int64_t n, float b, float* value, float* slope) {
  if (b == 0) {
    std::copy(x, x + n, value);
    std::fill(slope, slope + n, 1.0F);
    return;
  }
  float scaled[kPart];
  for (std::int64_t i = 0; i < n; ++i) scaled[i] = x[i] / b;
  tanh_part(scaled, n, value, slope);
  for (std::int64_t i = 0; i < n; ++i) value[i] *= b;
}

}  // namespace

void unit_row(const float* gate, const float* up, std::int64_t n, const GatedUnit& unit,
              float* value, float* by_gate, float* by_up) {
  for (std::int64_t first = 0; first < n; first += kPart) {
    const std::int64_t count = std::min(kPart, n - first);
    float s[kPart], rest[kPart], a[kPart], a_slope[kPart], b[kPart], b_slope[kPart];
    kda_kernel::best_micro().sigmoid(gate + first, count, s, rest);
    limited(gate + first, count, unit.beta, a, a_slope);
    limited(up + first, count, unit.linear_beta, b, b_slope);
    for (std::int64_t i = 0; i < count; ++i) value[first + i] = a[i] * s[i] * b[i];
    if (by_gate == nullptr) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      by_gate[first + i] = (a_slope[i] * s[i] + a[i] * s[i] * rest[i]) * b[i];
      by_up[first + i] = a[i] * s[i] * b_slope[i];
    }
  }
}

}  // namespace parity::moe_kernel
