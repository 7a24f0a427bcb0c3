#include "references/blocks/layer_norm.hpp"

#include <cmath>

namespace parity::net {
namespace {

template <class T>
struct Standardised {
  Array<T> hat;
  std::vector<T> rstd;  // by row
};

template <class T>
Standardised<T> standardised(const Run<T>& run, const Array<T>& x, double eps) {
  Standardised<T> s{x, {}};
  const T n = static_cast<T>(x.width());
  std::vector<T> squares(static_cast<std::size_t>(x.width()));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::span<T> hat = s.hat.row(r);
    const T mean = run.sum(hat) / n;
    for (std::size_t i = 0; i < hat.size(); ++i) {
      hat[i] -= mean;
      squares[i] = hat[i] * hat[i];
    }
    s.rstd.push_back(1 / std::sqrt(run.sum(squares) / n + static_cast<T>(eps)));
    for (T& value : hat) value *= s.rstd.back();
  }
  return s;
}

}  // namespace

template <class T>
Array<T> layer_norm(Run<T>& run, const Array<T>& x, const std::string& name, double eps) {
  const Array<T>&w = run.param(name + ".weight"), &b = run.param(name + ".bias");
  Array<T> y = standardised(run, x, eps).hat;
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const std::int64_t column = i % w.count();
    y[i] = w[column] * y[i] + b[column];
  }
  run.store(y);
  return y;
}

template <class T>
Array<T> layer_norm_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy,
                             const std::string& name, double eps) {
  const Array<T>& w = run.param(name + ".weight");
  const Standardised<T> s = standardised(run, x, eps);
  const auto D = static_cast<std::size_t>(x.width());
  Array<T> dx = x, dw({x.width()}), db({x.width()});
  std::vector<T> n(D), product(D), column(static_cast<std::size_t>(x.rows())), plain = column;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::span<const T> hat = s.hat.row(r), g = dy.row(r);
    for (std::size_t i = 0; i < D; ++i) {
      n[i] = g[i] * w.data[i];
      product[i] = n[i] * hat[i];
    }
    const T mean = run.sum(n) / static_cast<T>(D), along = run.sum(product) / static_cast<T>(D);
    for (std::size_t i = 0; i < D; ++i)
      dx.row(r)[i] = s.rstd[static_cast<std::size_t>(r)] * (n[i] - mean - hat[i] * along);
  }
  for (std::size_t i = 0; i < D; ++i) {
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      plain[static_cast<std::size_t>(r)] = dy.row(r)[i];
      column[static_cast<std::size_t>(r)] = dy.row(r)[i] * s.hat.row(r)[i];
    }
    dw.data[i] = run.sum(column);
    db.data[i] = run.sum(plain);
  }
  run.store(dw);
  run.store(db);
  run.param_grad(name + ".weight", dw);
  run.param_grad(name + ".bias", db);
  run.store(dx);
  return dx;
}

#define PARITY_INSTANTIATE(T)                                                         \
  template Array<T> layer_norm(Run<T>&, const Array<T>&, const std::string&, double); \
  template Array<T> layer_norm_backward(Run<T>&, const Array<T>&, const Array<T>&,    \
                                        const std::string&, double);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
