// What stands around the recurrence of kda: norm of q and k, gate, gated output norm.
#include <cmath>

#include "references/blocks/kda.hpp"
#include "references/blocks/scalar.hpp"

namespace parity::net {
namespace {

template <class T>
T reciprocal_norm(const Run<T>& run, std::span<const T> x, double eps, T divisor) {
  std::vector<T> squares(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) squares[i] = x[i] * x[i];
  return 1 / std::sqrt(run.sum(squares) / divisor + static_cast<T>(eps));
}

}  // namespace

template <class T>
Array<T> l2_norm(Run<T>& run, const Array<T>& x, double eps) {
  Array<T> y = x;
  const T divisor = run.fault("P-l2-mean") ? static_cast<T>(x.width()) : T{1};
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const T norm = reciprocal_norm(run, x.row(r), eps, divisor) / std::sqrt(divisor);
    for (T& value : y.row(r)) value *= norm;
  }
  run.store(y);
  return y;
}

template <class T>
Array<T> l2_norm_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy, double eps) {
  Array<T> dx = x;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const T norm = reciprocal_norm(run, x.row(r), eps, T{1});
    const T along = norm * norm * dot(run, x.row(r), dy.row(r));
    for (std::size_t i = 0; i < dx.row(r).size(); ++i)
      dx.row(r)[i] = norm * (dy.row(r)[i] - x.row(r)[i] * along);
  }
  run.store(dx);
  return dx;
}

namespace {

// g and its slope with respect to the logit, and to A_log.
template <class T>
struct GatePoint {
  T g = 0, slope = 0, d_A_log = 0;
};

template <class T>
GatePoint<T> gate_at(T logit, T A_log, const KdaGate& gate) {
  const T A = std::exp(A_log);
  if (gate.lower) {
    const T s = sigmoid(A * logit), bound = static_cast<T>(gate.bound);
    const T slope = bound * s * sigmoid(-A * logit);
    return {bound * s, slope * A, slope * A * logit};
  }
  const T softplus = logit > 20 ? logit : std::log1p(std::exp(logit));
  return {-A * softplus, -A * (logit > 20 ? T{1} : sigmoid(logit)), -A * softplus};
}

template <class T>
T logit_at(Run<T>& run, const Array<T>& raw, const KdaGate& gate, std::int64_t i) {
  const Array<T>& bias = run.param(gate.dt_bias);
  return raw[i] + (run.fault("P-gate-no-bias") ? 0 : bias[i % bias.count()]);
}

}  // namespace

template <class T>
Array<T> kda_gate(Run<T>& run, const Array<T>& raw, const KdaGate& gate) {
  const Array<T>& A_log = run.param(gate.A_log);
  const std::int64_t K = run.param(gate.dt_bias).count() / A_log.count();
  Array<T> g = raw;
  for (std::int64_t i = 0; i < raw.count(); ++i) {
    const T A = run.fault("P-gate-no-A") ? T{0} : A_log[i / K % A_log.count()];
    g[i] = gate_at(logit_at(run, raw, gate, i), A, gate).g;
  }
  return g.as({raw.rows(), A_log.count(), K});
}

template <class T>
Array<T> kda_gate_backward(Run<T>& run, const Array<T>& raw, const Array<T>& dg,
                           const KdaGate& gate) {
  const Array<T>&A_log = run.param(gate.A_log), &bias = run.param(gate.dt_bias);
  const std::int64_t heads = A_log.count(), K = bias.count() / heads,
                     rows = raw.count() / bias.count();
  Array<T> d = raw, d_A = A_log, d_bias = bias;
  std::vector<T> of_A, of_bias(static_cast<std::size_t>(rows));
  for (std::int64_t h = 0; h < heads; ++h) {
    of_A.clear();
    for (std::int64_t k = 0; k < K; ++k) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t i = (r * heads + h) * K + k;
        const GatePoint<T> p = gate_at(logit_at(run, raw, gate, i), A_log[h], gate);
        d[i] = dg[i] * p.slope;
        of_A.push_back(dg[i] * p.d_A_log);
        of_bias[static_cast<std::size_t>(r)] = d[i];
      }
      d_bias[h * K + k] = run.sum(of_bias);
    }
    d_A[h] = run.sum(of_A);
  }
  run.param_grad(gate.A_log, d_A);
  run.param_grad(gate.dt_bias, d_bias);
  run.store(d);
  return d;
}

template <class T>
Array<T> gated_norm(Run<T>& run, const Array<T>& o, const Array<T>& gate, const std::string& weight,
                    double eps) {
  const Array<T>& w = run.param(weight);
  Array<T> y = o;
  for (std::int64_t r = 0; r < o.rows(); ++r) {
    const T norm = reciprocal_norm(run, o.row(r), eps, static_cast<T>(o.width()));
    for (std::size_t i = 0; i < w.data.size(); ++i) {
      const T logit = gate.row(r)[i];
      y.row(r)[i] = o.row(r)[i] * norm * w.data[i] *
                    (run.fault("P-gate-swish") ? logit * sigmoid(logit) : sigmoid(logit));
    }
  }
  run.store(y);
  return y;
}

template <class T>
GatedNormGradients<T> gated_norm_backward(Run<T>& run, const Array<T>& o, const Array<T>& gate,
                                          const Array<T>& dy, const std::string& weight,
                                          double eps) {
  const Array<T>& w = run.param(weight);
  const auto V = w.data.size();
  GatedNormGradients<T> d{o, gate};
  Array<T> dw = w;
  std::vector<T> n(V), hat(V);
  std::vector<std::vector<T>> columns(V);
  for (std::int64_t r = 0; r < o.rows(); ++r) {
    const T norm = reciprocal_norm(run, o.row(r), eps, static_cast<T>(V));
    for (std::size_t i = 0; i < V; ++i) {
      const T s = sigmoid(gate.row(r)[i]), slope = s * sigmoid(-gate.row(r)[i]);
      hat[i] = o.row(r)[i] * norm;
      n[i] = dy.row(r)[i] * w.data[i] * s;
      d.gate.row(r)[i] = dy.row(r)[i] * hat[i] * w.data[i] * slope;
      columns[i].push_back(dy.row(r)[i] * s * hat[i]);
    }
    const T mean = dot(run, std::span<const T>(n), std::span<const T>(hat)) / static_cast<T>(V);
    for (std::size_t i = 0; i < V; ++i) d.o.row(r)[i] = norm * (n[i] - hat[i] * mean);
  }
  for (std::size_t i = 0; i < V; ++i) dw.data[i] = run.sum(columns[i]);
  run.store(dw);
  run.param_grad(weight, dw);
  run.store(d.o);
  run.store(d.gate);
  return d;
}

#define PARITY_INSTANTIATE(T)                                                                     \
  template Array<T> l2_norm(Run<T>&, const Array<T>&, double);                                    \
  template Array<T> l2_norm_backward(Run<T>&, const Array<T>&, const Array<T>&, double);          \
  template Array<T> kda_gate(Run<T>&, const Array<T>&, const KdaGate&);                           \
  template Array<T> kda_gate_backward(Run<T>&, const Array<T>&, const Array<T>&, const KdaGate&); \
  template Array<T> gated_norm(Run<T>&, const Array<T>&, const Array<T>&, const std::string&,     \
                               double);                                                           \
  template GatedNormGradients<T> gated_norm_backward(Run<T>&, const Array<T>&, const Array<T>&,   \
                                                     const Array<T>&, const std::string&, double);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
