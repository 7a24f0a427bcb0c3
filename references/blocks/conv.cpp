#include "references/blocks/conv.hpp"

#include <cmath>

#include "references/blocks/scalar.hpp"

namespace parity::net {
namespace {

// Channel c of x at a token before or inside sequence n; `before` counts back from its start.
template <class T>
struct Line {
  const Array<T>& x;
  const Array<T>* state;
  std::int64_t n, c, start;
  T at(std::int64_t row) const {
    const std::int64_t C = x.width();
    if (row >= start) return x[row * C + c];
    if (!state) return 0;
    const std::int64_t W = state->shape[2], slot = W - (start - row);
    return slot < 0 ? T{0} : (*state)[(n * C + c) * W + slot];
  }
};

template <class T>
T filtered(const Run<T>& run, const Line<T>& line, std::span<const T> weight, T bias,
           std::int64_t row, std::vector<T>& terms) {
  const auto W = static_cast<std::int64_t>(weight.size());
  for (std::int64_t w = 0; w < W; ++w)
    terms[static_cast<std::size_t>(w)] =
        weight[static_cast<std::size_t>(w)] * line.at(row - W + 1 + w);
  return run.sum(terms) + bias;
}

template <class T>
struct Filter {
  Array<T> weight;  // [C,W]
  Array<T> bias;    // [C], zeros without one
  bool biased = false;
};

template <class T>
Filter<T> filter(Run<T>& run, const std::string& name) {
  const Array<T>& weight = run.param(name + ".weight");
  Filter<T> f;
  f.weight = weight.as({weight.shape[0], weight.width()});
  if (run.fault("P-conv-reversed"))
    for (std::int64_t c = 0; c < f.weight.rows(); ++c)
      std::reverse(f.weight.row(c).begin(), f.weight.row(c).end());
  f.biased = run.has("params/" + name + ".bias");
  f.bias = f.biased ? run.param(name + ".bias") : Array<T>({weight.shape[0]});
  return f;
}

// Sequence by sequence; a fault lets the window of a packed batch reach into the sequence before.
template <class T>
std::vector<std::int64_t> windows(const Run<T>& run, const std::vector<std::int64_t>& starts) {
  if (run.fault("P-conv-leak")) return {starts.front(), starts.back()};
  return starts;
}

}  // namespace

template <class T>
Array<T> short_conv(Run<T>& run, const Array<T>& x, const std::string& name,
                    const std::vector<std::int64_t>& all, const Array<T>* state) {
  const Filter<T> f = filter(run, name);
  const std::vector<std::int64_t> starts = windows(run, all);
  std::vector<T> terms(static_cast<std::size_t>(f.weight.width()));
  Array<T> y = x;
  for (std::size_t n = 0; n + 1 < starts.size(); ++n)
    for (std::int64_t c = 0; c < x.width(); ++c) {
      const Line<T> line{x, state, static_cast<std::int64_t>(n), c, starts[n]};
      for (std::int64_t row = starts[n]; row < starts[n + 1]; ++row) {
        const T z = filtered<T>(run, line, f.weight.row(c), f.bias[c], row, terms);
        y[row * x.width() + c] = z * sigmoid(z);
      }
    }
  run.store(y);
  return y;
}

template <class T>
Array<T> short_conv_backward(Run<T>& run, const Array<T>& x, const Array<T>& dy,
                             const std::string& name, const std::vector<std::int64_t>& all) {
  const Filter<T> f = filter(run, name);
  const std::vector<std::int64_t> starts = windows(run, all);
  const std::int64_t W = f.weight.width(), C = x.width();
  std::vector<T> terms(static_cast<std::size_t>(W));
  Array<T> dz = dy, dx = dy, dweight(f.weight.shape), dbias({C});
  for (std::size_t n = 0; n + 1 < starts.size(); ++n)
    for (std::int64_t c = 0; c < C; ++c) {
      const Line<T> line{x, nullptr, static_cast<std::int64_t>(n), c, starts[n]};
      for (std::int64_t row = starts[n]; row < starts[n + 1]; ++row) {
        const T z = filtered<T>(run, line, f.weight.row(c), f.bias[c], row, terms);
        const T s = sigmoid(z);
        dz[row * C + c] *= run.fault("P-silu-slope") ? s : s * (1 + z * sigmoid(-z));
      }
      for (std::int64_t row = starts[n]; row < starts[n + 1]; ++row) {
        terms.clear();
        for (std::int64_t w = 0; w < W; ++w)
          if (const std::int64_t from = row + W - 1 - w; from < starts[n + 1])
            terms.push_back(f.weight[c * W + w] * dz[from * C + c]);
        dx[row * C + c] = run.sum(terms);
      }
      terms.resize(static_cast<std::size_t>(W));
    }
  std::vector<T> column;
  for (std::int64_t c = 0; c < C; ++c) {
    for (std::int64_t w = 0; w < W; ++w) {
      column.clear();
      for (std::size_t n = 0; n + 1 < starts.size(); ++n) {
        const Line<T> line{x, nullptr, static_cast<std::int64_t>(n), c, starts[n]};
        for (std::int64_t row = starts[n]; row < starts[n + 1]; ++row)
          column.push_back(dz[row * C + c] * line.at(row - W + 1 + w));
      }
      dweight[c * W + w] = run.sum(column);
    }
    column.clear();
    for (std::int64_t row = starts.front(); row < starts.back(); ++row)
      column.push_back(dz[row * C + c]);
    dbias[c] = run.sum(column);
  }
  run.store(dweight);
  run.param_grad(name + ".weight", dweight.as(run.param(name + ".weight").shape));
  if (f.biased) {
    run.store(dbias);
    run.param_grad(name + ".bias", dbias);
  }
  run.store(dx);
  return dx;
}

template <class T>
Array<T> conv_state(const Array<T>& x, std::int64_t W, const std::vector<std::int64_t>& starts,
                    const Array<T>* state) {
  const std::int64_t C = x.width(), N = static_cast<std::int64_t>(starts.size()) - 1;
  Array<T> last({N, C, W});
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t c = 0; c < C; ++c) {
      const Line<T> line{x, state, n, c, starts[static_cast<std::size_t>(n)]};
      const std::int64_t end = starts[static_cast<std::size_t>(n) + 1];
      for (std::int64_t w = 0; w < W; ++w) last[(n * C + c) * W + w] = line.at(end - W + w);
    }
  return last;
}

#define PARITY_INSTANTIATE(T)                                                                   \
  template Array<T> short_conv(Run<T>&, const Array<T>&, const std::string&,                    \
                               const std::vector<std::int64_t>&, const Array<T>*);              \
  template Array<T> short_conv_backward(Run<T>&, const Array<T>&, const Array<T>&,              \
                                        const std::string&, const std::vector<std::int64_t>&);  \
  template Array<T> conv_state(const Array<T>&, std::int64_t, const std::vector<std::int64_t>&, \
                               const Array<T>*);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
