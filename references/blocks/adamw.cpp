#include "references/blocks/adamw.hpp"

#include <cmath>

namespace parity::net {

template <class T>
void adamw_step(Array<T>& p, const Array<T>& g, Moments<T>& moments, int t, const AdamW& a) {
  if (moments.first.data.empty()) moments = {Array<T>(p.shape), Array<T>(p.shape)};
  const T lr = static_cast<T>(a.lr), b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2);
  const T step = static_cast<T>(a.lr / (1 - std::pow(a.beta1, t)));
  const T root = static_cast<T>(std::sqrt(1 - std::pow(a.beta2, t)));
  for (std::int64_t i = 0; i < p.count(); ++i) {
    T &m = moments.first[i], &v = moments.second[i];
    p[i] *= 1 - lr * static_cast<T>(a.decay);
    m += (1 - b1) * (g[i] - m);
    v = b2 * v + (1 - b2) * g[i] * g[i];
    p[i] -= step * (m / (std::sqrt(v) / root + static_cast<T>(a.eps)));
  }
}

template void adamw_step(Array<double>&, const Array<double>&, Moments<double>&, int, const AdamW&);
template void adamw_step(Array<float>&, const Array<float>&, Moments<float>&, int, const AdamW&);

}  // namespace parity::net
