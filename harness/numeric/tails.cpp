#include "harness/numeric/tails.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace parity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kManyDof = 1e5;  // beyond it Student's t is normal to five digits even at 1e-15

// The even part of the continued fraction of I_x(a, b) for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto guarded = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / guarded(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m <= 10000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    const double step = d * c;
    h *= step;
    if (std::abs(step - 1) < 1e-15) break;
  }
  return h;
}

// lgamma keeps its sign in a global; all arguments here are positive.
double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

// The root of a decreasing function on (0, inf), by bisection on the logarithm.
template <class Tail>
double solve(double p, const Tail& tail) {
  double low = -20, high = 30;  // of log10
  for (int i = 0; i < 200 && high - low > 1e-11; ++i) {
    const double middle = (low + high) / 2;
    (tail(std::pow(10.0, middle)) > p ? low : high) = middle;
  }
  return std::pow(10.0, (low + high) / 2);
}

}  // namespace

double incomplete_beta(double a, double b, double x) {
  if (!(x > 0)) return 0;
  if (!(x < 1)) return 1;
  const double front = std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) +
                                b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// Newton on erfc from the asymptotic root; erfc keeps full relative accuracy in its tail.
double normal_upper(double p) {
  if (!(p > 0)) return kInfinity;
  if (p >= 0.5) return p == 0.5 ? 0 : -normal_upper(1 - p);
  double z = std::sqrt(std::max(0.0, -2 * std::log(2 * p)));
  for (int i = 0; i < 60; ++i) {
    const double tail = 0.5 * std::erfc(z / std::sqrt(2.0));
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * 3.14159265358979323846);
    // Newton on log(tail), whose slope is -density / tail: converges from the right at any p.
    const double step = (std::log(tail) - std::log(p)) * tail / density;
    z += step;
    if (std::abs(step) < 1e-14 * std::max(1.0, z)) break;
  }
  return z;
}

double student_upper(double p, double dof) {
  if (!(p > 0) || !(dof > 0)) return kInfinity;
  if (p >= 0.5) return p == 0.5 ? 0 : -student_upper(1 - p, dof);
  if (dof > kManyDof) return normal_upper(p);
  return solve(p,
               [&](double t) { return 0.5 * incomplete_beta(dof / 2, 0.5, dof / (dof + t * t)); });
}

double chi_square_upper(double p, double dof) {
  if (!(p > 0) || !(dof > 0)) return kInfinity;
  const double a = 2 / (9 * dof);
  const double root = 1 - a + normal_upper(p) * std::sqrt(a);
  return dof * root * root * root;
}

double fisher_upper(double p, double dof_above, double dof_below) {
  if (!(p > 0) || !(dof_above > 0) || !(dof_below > 0)) return kInfinity;
  if (dof_above > kManyDof && dof_below > kManyDof) {
    // log F is normal with variance 2/d1 + 2/d2.
    return std::exp(normal_upper(p) * std::sqrt(2 / dof_above + 2 / dof_below));
  }
  return solve(p, [&](double f) {
    return incomplete_beta(dof_below / 2, dof_above / 2, dof_below / (dof_below + dof_above * f));
  });
}

}  // namespace parity
