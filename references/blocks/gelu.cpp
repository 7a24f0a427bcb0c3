#include "references/blocks/gelu.hpp"

#include <cmath>
#include <numbers>

namespace parity::net {
namespace {

constexpr double kCube = 0.044715;

template <class T>
struct GeluPoint {
  T y = 0, slope = 0;
};

template <class T>
GeluPoint<T> at(T x, Gelu kind) {
  constexpr T kRootTwo = std::numbers::sqrt2_v<T>, kInvRootPi = std::numbers::inv_sqrtpi_v<T>;
  if (kind == Gelu::Erf) {
    // erfc keeps the tail: 1 + erf would cancel.
    const T cdf = std::erfc(-x / kRootTwo) / 2;
    const T pdf = std::exp(-x * x / 2) * kInvRootPi / kRootTwo;
    return {x * cdf, cdf + x * pdf};
  }
  constexpr T kBeta = kRootTwo * kInvRootPi, kThird = static_cast<T>(kCube);
  const T t = std::tanh(kBeta * (x + kThird * x * x * x));
  return {x * (1 + t) / 2, (1 + t) / 2 + x / 2 * (1 - t * t) * kBeta * (1 + 3 * kThird * x * x)};
}

}  // namespace

template <class T>
Array<T> gelu(Run<T>& run, const Array<T>& x, Gelu kind) {
  Array<T> y = x;
  for (T& value : y.data) value = at(value, kind).y;
  run.store(y);
  return y;
}

template <class T>
Array<T> gelu_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy, Gelu kind) {
  Array<T> dx = dy;
  for (std::int64_t i = 0; i < dx.count(); ++i) dx[i] *= at(x[i], kind).slope;
  run.store(dx);
  return dx;
}

#define PARITY_INSTANTIATE(T)                             \
  template Array<T> gelu(Run<T>&, const Array<T>&, Gelu); \
  template Array<T> gelu_backward(Run<T>&, const Array<T>&, const Array<T>&, Gelu);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
