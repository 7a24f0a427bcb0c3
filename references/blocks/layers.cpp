#include "references/blocks/layers.hpp"

#include <cmath>

#include "harness/failure.hpp"
#include "references/blocks/scalar.hpp"

namespace parity::net {

template <class T>
Array<T> linear(Run<T>& run, const Array<T>& x, const std::string& name) {
  Array<T> y = times_transposed(run, x, run.param(name + ".weight"));
  if (run.has("params/" + name + ".bias")) {
    const Array<T>& bias = run.param(name + ".bias");
    for (std::int64_t r = 0; r < y.rows(); ++r)
      for (std::int64_t n = 0; n < y.width(); ++n) y.row(r)[static_cast<std::size_t>(n)] += bias[n];
  }
  run.store(y);
  return y;
}

template <class T>
Array<T> linear_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy,
                         const std::string& name) {
  Array<T> dw = transposed_times(run, dy, x);
  run.store(dw);
  run.param_grad(name + ".weight", dw.as(run.param(name + ".weight").shape));
  if (run.has("params/" + name + ".bias")) {
    Array<T> dbias({dy.width()});
    std::vector<T> terms(static_cast<std::size_t>(dy.rows()));
    for (std::int64_t n = 0; n < dy.width(); ++n) {
      for (std::int64_t r = 0; r < dy.rows(); ++r)
        terms[static_cast<std::size_t>(r)] = dy[r * dy.width() + n];
      dbias[n] = run.sum(terms);
    }
    run.store(dbias);
    run.param_grad(name + ".bias", dbias);
  }
  Array<T> dx = times(run, dy, run.param(name + ".weight"));
  run.store(dx);
  return dx;
}

namespace {

template <class T>
T reciprocal_rms(const Run<T>& run, std::span<const T> x, const Norm& norm) {
  std::vector<T> squares(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) squares[i] = x[i] * x[i];
  const T mean = run.sum(squares) / static_cast<T>(x.size());
  return 1 / std::sqrt(mean + static_cast<T>(norm.eps));
}

// x r, row by row, stored where the convention says so.
template <class T>
Array<T> normalised(Run<T>& run, const Array<T>& x, const Norm& norm) {
  Array<T> hat = x;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const T rstd = reciprocal_rms(run, x.row(r), norm);
    for (T& value : hat.row(r)) value *= rstd;
  }
  if (norm.cast_first) run.store(hat);
  return hat;
}

}  // namespace

template <class T>
Array<T> rms_norm(Run<T>& run, const Array<T>& x, const std::string& weight, const Norm& norm) {
  const Array<T>& w = run.param(weight);
  Array<T> y = normalised(run, x, norm);
  for (std::int64_t i = 0; i < y.count(); ++i) y[i] *= w[i % w.count()];
  run.store(y);
  return y;
}

template <class T>
Array<T> rms_norm_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy,
                           const std::string& weight, const Norm& norm) {
  const Array<T>& w = run.param(weight);
  const auto D = static_cast<std::size_t>(x.width());
  const Array<T> hat = normalised(run, x, norm);
  Array<T> dx = x, dw({x.width()});
  std::vector<T> n(D), terms(D), column(static_cast<std::size_t>(x.rows()));
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const T rstd = reciprocal_rms(run, x.row(r), norm);
    for (std::size_t i = 0; i < D; ++i) {
      n[i] = dy.row(r)[i] * w.data[i];
      terms[i] = n[i] * hat.row(r)[i];
    }
    const T mean = run.sum(terms) / static_cast<T>(D);
    for (std::size_t i = 0; i < D; ++i) dx.row(r)[i] = rstd * (n[i] - hat.row(r)[i] * mean);
  }
  for (std::size_t i = 0; i < D; ++i) {
    for (std::int64_t r = 0; r < x.rows(); ++r)
      column[static_cast<std::size_t>(r)] = dy.row(r)[i] * hat.row(r)[i];
    dw.data[i] = run.sum(column);
  }
  run.store(dw);
  run.param_grad(weight, dw);
  run.store(dx);
  return dx;
}

namespace {

// sigmoid(gate), and the two limiters where the unit has them, each as a kernel may round it.
template <class T>
struct UnitParts {
  Array<T> s, gate_tanh, up_tanh;
};

template <class T>
UnitParts<T> unit_parts(const Run<T>& run, const Array<T>& gate, const Array<T>& up,
                        const Unit& unit) {
  const auto each = [&](const Array<T>& x, auto f) {
    Array<T> y = x;
    for (T& value : y.data) value = f(value);
    run.keep(y);
    return y;
  };
  UnitParts<T> parts{.s = each(gate, sigmoid<T>), .gate_tanh = {}, .up_tanh = {}};
  const auto limiter = [](double beta) {
    return [b = static_cast<T>(beta)](T x) { return std::tanh(x / b); };
  };
  if (unit.beta != 0) parts.gate_tanh = each(gate, limiter(unit.beta));
  if (unit.linear_beta != 0) parts.up_tanh = each(up, limiter(unit.linear_beta));
  return parts;
}

template <class T>
struct UnitPoint {
  T gate = 0, d_gate = 0;  // a(gate) and its slope
  T up = 0, d_up = 0;      // b(up) and its slope
};

// The truth's 1 - s does not cancel; a kernel's may, and so does that of the variants.
template <class T>
UnitPoint<T> unit_at(const Run<T>& run, const UnitParts<T>& parts, T gate, T up, std::int64_t i,
                     const Unit& unit) {
  const T s = parts.s[i], slope = s * (run.variation() == 0 ? sigmoid(-gate) : 1 - s);
  UnitPoint<T> p;
  if (unit.beta == 0) {
    p.gate = gate * s;
    p.d_gate = s + gate * slope;
  } else {
    const T beta = static_cast<T>(unit.beta), t = parts.gate_tanh[i];
    p.gate = beta * t * s;
    p.d_gate = (1 - t * t) * s + beta * t * slope;
  }
  p.up = up, p.d_up = 1;
  if (unit.linear_beta != 0) {
    const T beta = static_cast<T>(unit.linear_beta), t = parts.up_tanh[i];
    p.up = beta * t;
    p.d_up = 1 - t * t;
  }
  return p;
}

}  // namespace

template <class T>
Array<T> gated_unit(Run<T>& run, const Array<T>& gate, const Array<T>& up, const Unit& unit) {
  Array<T> y = gate;
  const UnitParts<T> parts = unit_parts(run, gate, up, unit);
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const UnitPoint<T> p = unit_at(run, parts, gate[i], up[i], i, unit);
    y[i] = p.gate * p.up;
  }
  run.store(y);
  return y;
}

template <class T>
GatedUnitGradients<T> gated_unit_backward(Run<T>& run, const Array<T>& gate, const Array<T>& up,
                                          const Array<T>& dy, const Unit& unit) {
  GatedUnitGradients<T> d{gate, up};
  const UnitParts<T> parts = unit_parts(run, gate, up, unit);
  for (std::int64_t i = 0; i < gate.count(); ++i) {
    const UnitPoint<T> p = unit_at(run, parts, gate[i], up[i], i, unit);
    d.gate[i] = dy[i] * p.d_gate * p.up;
    d.up[i] = dy[i] * p.gate * p.d_up;
  }
  run.store(d.gate);
  run.store(d.up);
  return d;
}

template <class T>
Array<T> mlp(Run<T>& run, const Array<T>& x, const Mlp& m) {
  return linear(run, gated_unit(run, linear(run, x, m.gate), linear(run, x, m.up), m.unit), m.down);
}

template <class T>
Array<T> mlp_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy, const Mlp& m) {
  const Array<T> gate = linear(run, x, m.gate), up = linear(run, x, m.up);
  const Array<T> dh = linear_backward(run, gated_unit(run, gate, up, m.unit), dy, m.down);
  const GatedUnitGradients<T> d = gated_unit_backward(run, gate, up, dh, m.unit);
  Array<T> dx = linear_backward(run, x, d.gate, m.gate);
  add(dx, linear_backward(run, x, d.up, m.up));
  run.store(dx);
  return dx;
}

template <class T>
Array<T> embedding(Run<T>& run, const std::vector<std::int64_t>& ids, const std::string& table) {
  const Array<T>& rows = run.param(table);
  Array<T> y({static_cast<std::int64_t>(ids.size()), rows.width()});
  for (std::size_t r = 0; r < ids.size(); ++r) {
    if (ids[r] < 0) continue;
    if (ids[r] >= rows.rows()) throw Failure("token id past the vocabulary");
    const std::span<const T> row = rows.row(ids[r]);
    std::copy(row.begin(), row.end(), y.row(static_cast<std::int64_t>(r)).begin());
  }
  return y;
}

template <class T>
void embedding_backward(Run<T>& run, const std::vector<std::int64_t>& ids, const Array<T>& dy,
                        const std::string& table) {
  Array<T> d(run.param(table).shape);
  for (std::size_t r = 0; r < ids.size(); ++r) {
    if (ids[r] < 0) continue;
    const std::span<const T> row = dy.row(static_cast<std::int64_t>(r));
    const std::span<T> to = d.row(ids[r]);
    for (std::size_t i = 0; i < row.size(); ++i) to[i] += row[i];
  }
  run.store(d);
  run.param_grad(table, d);
}

template <class T>
CrossEntropy<T> cross_entropy(Run<T>& run, const Array<T>& logits,
                              const std::vector<std::int64_t>& labels, bool mean,
                              std::int64_t ignored) {
  CrossEntropy<T> result;
  result.d_logits = logits;
  T count = 0;
  for (const std::int64_t label : labels) count += label != ignored;
  const T divisor = mean ? count : T{1};
  std::vector<T> losses, weights(static_cast<std::size_t>(logits.width()));
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const std::span<const T> z = logits.row(static_cast<std::int64_t>(r));
    const std::span<T> d = result.d_logits.row(static_cast<std::int64_t>(r));
    if (labels[r] == ignored) {
      std::fill(d.begin(), d.end(), T{0});
      continue;
    }
    T top = z[0];
    for (const T x : z) top = std::max(top, x);
    for (std::size_t i = 0; i < z.size(); ++i) weights[i] = std::exp(z[i] - top);
    const T total = run.sum(weights);
    const auto label = static_cast<std::size_t>(labels[r]);
    losses.push_back(std::log(total) + top - z[label]);
    for (std::size_t i = 0; i < z.size(); ++i)
      d[i] = (weights[i] / total - (i == label ? 1 : 0)) / divisor;
  }
  result.loss = run.sum(losses) / divisor;
  run.store(result.d_logits);
  return result;
}

#define PARITY_INSTANTIATE(T)                                                                   \
  template Array<T> linear(Run<T>&, const Array<T>&, const std::string&);                       \
  template Array<T> linear_backward(Run<T>&, const Array<T>&, const Array<T>&,                  \
                                    const std::string&);                                        \
  template Array<T> rms_norm(Run<T>&, const Array<T>&, const std::string&, const Norm&);        \
  template Array<T> rms_norm_backward(Run<T>&, const Array<T>&, const Array<T>&,                \
                                      const std::string&, const Norm&);                         \
  template Array<T> gated_unit(Run<T>&, const Array<T>&, const Array<T>&, const Unit&);         \
  template GatedUnitGradients<T> gated_unit_backward(Run<T>&, const Array<T>&, const Array<T>&, \
                                                     const Array<T>&, const Unit&);             \
  template Array<T> mlp(Run<T>&, const Array<T>&, const Mlp&);                                  \
  template Array<T> mlp_backward(Run<T>&, const Array<T>&, const Array<T>&, const Mlp&);        \
  template Array<T> embedding(Run<T>&, const std::vector<std::int64_t>&, const std::string&);   \
  template void embedding_backward(Run<T>&, const std::vector<std::int64_t>&, const Array<T>&,  \
                                   const std::string&);                                         \
  template CrossEntropy<T> cross_entropy(Run<T>&, const Array<T>&,                              \
                                         const std::vector<std::int64_t>&, bool, std::int64_t);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
