// Vectorised units against libm in double, near zero, bending and shut.
#include "kernels/moe/unit.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace parity::moe_kernel {
namespace {

double limiter(double x, double b) { return b == 0 ? x : b * std::tanh(x / b); }
double value(double g, double u, const GatedUnit& unit) {
  return limiter(g, unit.beta) / (1 + std::exp(-g)) * limiter(u, unit.linear_beta);
}

TEST(MoeUnit, ValuesAndSlopesAreThoseOfLibm) {
  std::vector<float> gate, up;
  for (int i = -40; i < 40; ++i)
    for (int j = -8; j < 8; ++j) {
      gate.push_back(static_cast<float>(i * 0.31 + j * 0.017));
      up.push_back(static_cast<float>(j * j * j * 0.25 + i * 0.001));
    }
  for (const float tiny : {1e-6F, -1e-6F, 1e-3F, 0.62F, 0.63F, -0.62F, -0.63F, 2.49F, 2.51F, 15.6F,
                           15.7F, 30.0F, -30.0F, 60.0F, 0.1F, 0.0F})
    gate.push_back(tiny), up.push_back(tiny);
  for (const GatedUnit unit : {GatedUnit{4, 25}, GatedUnit{1, 0}, GatedUnit{0, 0}}) {
    const auto n = static_cast<std::int64_t>(gate.size());
    std::vector<float> y(gate.size()), by_gate(gate.size()), by_up(gate.size());
    unit_row(gate.data(), up.data(), n, unit, y.data(), by_gate.data(), by_up.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = gate[i], u = up[i], h = 1e-5;
      const double want = value(g, u, unit);
      EXPECT_NEAR(y[i], want, 1e-6 * std::abs(want)) << g << " " << u;
      const double slope = (value(g + h, u, unit) - value(g - h, u, unit)) / (2 * h);
      EXPECT_NEAR(by_gate[i], slope, 2e-6 * (std::abs(slope) + std::abs(want))) << g << " " << u;
      const double up_slope = (value(g, u + h, unit) - value(g, u - h, unit)) / (2 * h);
      EXPECT_NEAR(by_up[i], up_slope, 2e-6 * (std::abs(up_slope) + std::abs(g))) << g << " " << u;
    }
  }
}

}  // namespace
}  // namespace parity::moe_kernel
