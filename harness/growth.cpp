// Growth of a rounding error over a reduction, and the constants that a family-wise target gives.
#include <cmath>
#include <limits>

#include "harness/bound.hpp"
#include "harness/failure.hpp"
#include "harness/numeric/tails.hpp"

namespace parity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// gamma_n = n u / (1 - n u), valid for n u < 1 only (Higham, Accuracy and Stability, lemma 3.1).
double gamma(double n, double u) { return n * u < 1 ? n * u / (1 - n * u) : kInfinity; }

}  // namespace

double growth_factor(const Growth& growth, double u) {
  if (!(growth.n >= 0) || !(u >= 0)) return kInfinity;  // NaN passes nothing
  switch (growth.kind) {
    case Growth::Kind::None:
      return 0;
    case Growth::Kind::WorstCase:
      return gamma(growth.n, u);
    case Growth::Kind::Blocked: {
      if (!(growth.block >= 1)) return kInfinity;
      if (growth.block >= growth.n) return gamma(growth.n, u);
      return gamma(growth.block + std::ceil(growth.n / growth.block) - 1, u);
    }
    case Growth::Kind::Pairwise:
      return gamma(growth.n > 1 ? std::ceil(std::log2(growth.n)) : 0, u);
    case Growth::Kind::Probabilistic:
      if (!(u < 1) || !(growth.lambda > 0)) return kInfinity;
      return std::expm1(growth.lambda * std::sqrt(growth.n) * u + growth.n * u * u / (1 - u));
  }
  throw Failure("unknown kind of growth");
}

// Higham and Mary 2019, thm 2.4: an element exceeds the probabilistic bound with probability at
// most 2 n exp(-lambda^2 (1 - u)^2 / 2); over N elements 2 n N exp(...) = alpha gives lambda (u <<
// 1).
double growth_lambda(double n, double elements, double alpha) {
  return std::sqrt(2 * std::log(2 * std::fmax(n, 1) * std::fmax(elements, 1) / alpha));
}

}  // namespace parity
