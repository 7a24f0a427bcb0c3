#include "references/blocks/gelu.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

namespace parity::net {
namespace {

Array<double> ramp() {
  Array<double> x({1, 8001});
  for (std::int64_t i = 0; i < x.count(); ++i) x[i] = static_cast<double>(i - 4000) / 400;
  return x;
}

TEST(Gelu, TheTwoDifferMostNear2Point70) {
  const Case c;
  const Tensors none;
  net::Run<double> run(c, none, false);
  const Array<double> x = ramp(), erf = gelu(run, x, Gelu::Erf), tanh = gelu(run, x, Gelu::Tanh);
  double most = 0, at = 0;
  for (std::int64_t i = 0; i < x.count(); ++i)
    if (const double gap = std::abs(erf[i] - tanh[i]); gap > most) most = gap, at = x[i];
  EXPECT_NEAR(most, 4.73e-4, 1e-6);
  EXPECT_NEAR(std::abs(at), 2.70, 0.02);
}

TEST(Gelu, TailsKeepTheirRelativePrecision) {
  const Case c;
  const Tensors none;
  net::Run<double> run(c, none, false);
  Array<double> x({1});
  x[0] = -30;
  // Mills: 1 - Phi(x) = phi(x) / x (1 - 1/x^2 + 3/x^4 - ...)
  const double phi = std::exp(-450.0) / std::sqrt(2 * 3.14159265358979323846);
  EXPECT_NEAR(gelu(run, x, Gelu::Erf)[0] / (-phi * (1 - 1 / 900.0 + 3 / 810000.0)), 1, 1e-7);
}

TEST(Gelu, SlopesAreDifferences) {
  const Case c;
  const Tensors none;
  net::Run<double> run(c, none, true);
  constexpr double h = 0x1p-20;
  Array<double> x = ramp(), one = x;
  std::ranges::fill(one.data, 1.0);
  for (const Gelu kind : {Gelu::Erf, Gelu::Tanh}) {
    const Array<double> slope = gelu_backward(run, x, one, kind);
    for (std::int64_t i = 0; i < x.count(); i += 97) {
      Array<double> two({2});
      two[0] = x[i] + h, two[1] = x[i] - h;
      const Array<double> y = gelu(run, two, kind);
      EXPECT_NEAR(slope[i], (y[0] - y[1]) / (2 * h), 1e-8) << x[i];
    }
  }
}

}  // namespace
}  // namespace parity::net
