#include "references/blocks/kda.hpp"

#include <cmath>

namespace parity::net {
namespace {

// One sequence and value head: the state before and after each token's decay.
template <class T>
struct Chain {
  std::int64_t K, V;
  std::vector<T> S, decayed;  // K x V
  std::vector<T> e, u;        // V
  explicit Chain(std::int64_t keys, std::int64_t values)
      : K(keys),
        V(values),
        S(static_cast<std::size_t>(K * V)),
        decayed(S.size()),
        e(static_cast<std::size_t>(V)),
        u(e.size()) {}
};

template <class T>
struct Sizes {
  std::int64_t H, HV, K, V;
  explicit Sizes(const KdaInputs<T>& in)
      : H(in.q.shape[1]), HV(in.v.shape[1]), K(in.q.shape[2]), V(in.v.shape[2]) {}
  std::int64_t head(std::int64_t hv) const { return hv / (HV / H); }
};

template <class T>
void step(const Run<T>& run, const KdaInputs<T>& in, std::int64_t row, std::int64_t hv,
          Chain<T>& c) {
  const Sizes<T> s(in);
  const std::span<const T> k = in.k.row(row * s.H + s.head(hv)), v = in.v.row(row * s.HV + hv),
                           g = in.g.row(row * s.HV + hv);
  const T beta = in.beta[row * s.HV + hv];
  std::vector<T> terms(static_cast<std::size_t>(s.K));
  for (std::int64_t i = 0; i < s.K; ++i) {
    const T a = std::exp(g[static_cast<std::size_t>(i)]);
    for (std::int64_t x = i * s.V; x < (i + 1) * s.V; ++x)
      c.decayed[static_cast<std::size_t>(x)] = a * c.S[static_cast<std::size_t>(x)];
  }
  for (std::size_t x = 0; x < c.e.size(); ++x) {
    for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = k[i] * c.decayed[i * c.e.size() + x];
    c.e[x] = v[x] - (run.fault("P-kda-no-delta") ? 0 : run.sum(terms));
    c.u[x] = beta * c.e[x];
    for (std::size_t i = 0; i < terms.size(); ++i)
      c.S[i * c.e.size() + x] = c.decayed[i * c.e.size() + x] + k[i] * c.u[x];
  }
}

}  // namespace

template <class T>
KdaResult<T> kda_recurrence(Run<T>& run, const KdaInputs<T>& in, const Array<T>* initial) {
  const Sizes<T> s(in);
  const auto N = static_cast<std::int64_t>(in.starts.size()) - 1;
  KdaResult<T> result{in.v, Array<T>({N, s.HV, s.K, s.V})};
  std::vector<T> terms(static_cast<std::size_t>(s.K));
  std::vector<T> carried;
  for (std::int64_t hv = 0; hv < s.HV; ++hv)
    for (std::int64_t n = 0; n < N; ++n) {
      Chain<T> c(s.K, s.V);
      const auto block = static_cast<std::ptrdiff_t>((n * s.HV + hv) * s.K * s.V);
      if (initial)
        std::copy_n(initial->data.begin() + block, s.K * s.V, c.S.begin());
      else if (n > 0 && run.fault("P-kda-leak"))
        c.S = carried;
      for (std::int64_t row = in.starts[static_cast<std::size_t>(n)];
           row < in.starts[static_cast<std::size_t>(n) + 1]; ++row) {
        step(run, in, row, hv, c);
        const std::span<const T> q = in.q.row(row * s.H + s.head(hv));
        for (std::int64_t x = 0; x < s.V; ++x) {
          for (std::int64_t i = 0; i < s.K; ++i)
            terms[static_cast<std::size_t>(i)] =
                q[static_cast<std::size_t>(i)] * c.S[static_cast<std::size_t>(i * s.V + x)];
          result.o[(row * s.HV + hv) * s.V + x] = static_cast<T>(in.scale) * run.sum(terms);
        }
      }
      std::copy(c.S.begin(), c.S.end(), result.state.data.begin() + block);
      carried = c.S;
    }
  run.store(result.o);
  return result;
}

template <class T>
KdaGradients<T> kda_recurrence_backward(Run<T>& run, const KdaInputs<T>& in, const Array<T>& d_o) {
  const Sizes<T> s(in);
  const auto K = static_cast<std::size_t>(s.K), V = static_cast<std::size_t>(s.V);
  const T scale = static_cast<T>(in.scale);
  KdaGradients<T> d{Array<T>(in.q.shape), Array<T>(in.k.shape), Array<T>(in.v.shape),
                    Array<T>(in.g.shape), Array<T>(in.beta.shape)};
  std::vector<T> terms;
  for (std::int64_t hv = 0; hv < s.HV; ++hv)
    for (std::size_t n = 0; n + 1 < in.starts.size(); ++n) {
      std::vector<Chain<T>> tokens;
      Chain<T> c(s.K, s.V);
      for (std::int64_t row = in.starts[n]; row < in.starts[n + 1]; ++row) {
        step(run, in, row, hv, c);
        tokens.push_back(c);
      }
      std::vector<T> carry(K * V), du(V), bdu(V);
      for (std::int64_t row = in.starts[n + 1] - 1; row >= in.starts[n]; --row) {
        const Chain<T>& t = tokens[static_cast<std::size_t>(row - in.starts[n])];
        const std::int64_t qk = row * s.H + s.head(hv), own = row * s.HV + hv;
        const std::span<const T> q = in.q.row(qk), k = in.k.row(qk), g = in.g.row(own),
                                 dout = d_o.row(own);
        for (std::size_t i = 0; i < K; ++i)
          for (std::size_t x = 0; x < V; ++x) carry[i * V + x] += scale * q[i] * dout[x];
        const T beta = in.beta[own];
        terms.resize(K);
        for (std::size_t x = 0; x < V; ++x) {
          for (std::size_t i = 0; i < K; ++i) terms[i] = carry[i * V + x] * k[i];
          du[x] = run.sum(terms);
          bdu[x] = beta * du[x];
          d.v.row(own)[x] = bdu[x];
        }
        terms.resize(V);
        for (std::size_t x = 0; x < V; ++x) terms[x] = du[x] * t.e[x];
        d.beta[own] = run.sum(terms);
        for (std::size_t i = 0; i < K; ++i) {
          for (std::size_t x = 0; x < V; ++x) terms[x] = t.S[i * V + x] * dout[x];
          d.q.row(qk)[i] += scale * run.sum(terms);
          for (std::size_t x = 0; x < V; ++x)
            terms[x] = carry[i * V + x] * t.u[x] - t.decayed[i * V + x] * bdu[x];
          d.k.row(qk)[i] += run.sum(terms);
          for (std::size_t x = 0; x < V; ++x) carry[i * V + x] -= k[i] * bdu[x];
          for (std::size_t x = 0; x < V; ++x) terms[x] = carry[i * V + x] * t.decayed[i * V + x];
          d.g.row(own)[i] = run.sum(terms);
          const T a = std::exp(g[i]);
          for (std::size_t x = 0; x < V; ++x) carry[i * V + x] *= a;
        }
      }
    }
  run.store(d.q);
  run.store(d.k);
  run.store(d.v);
  return d;
}

#define PARITY_INSTANTIATE(T)                                                          \
  template KdaResult<T> kda_recurrence(Run<T>&, const KdaInputs<T>&, const Array<T>*); \
  template KdaGradients<T> kda_recurrence_backward(Run<T>&, const KdaInputs<T>&, const Array<T>&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
