#include "references/blocks/attn_res.hpp"

#include <algorithm>
#include <cmath>

#include "references/blocks/scalar.hpp"

namespace parity::net {
namespace {

// The sources of one token with their keys and weights.
template <class T>
struct Token {
  std::vector<std::span<const T>> values;
  std::vector<std::vector<T>> keys;
  std::vector<T> rstd, probs;
};

template <class T>
std::vector<T> query(Run<T>& run, const AttnRes& a) {
  Array<T> q = run.param(a.norm);
  const Array<T>& proj = run.param(a.proj);
  if (run.fault("P-res-no-norm-weight")) std::ranges::fill(q.data, T{1});
  for (std::int64_t i = 0; i < q.count(); ++i) q[i] *= proj[i];
  if (run.fault("P-res-scaled"))
    for (T& x : q.data) x /= std::sqrt(static_cast<T>(q.count()));
  return q.data;
}

template <class T>
Token<T> read_token(Run<T>& run, const Array<T>& bank, const Array<T>& prefix, std::int64_t t,
                    std::span<const T> q, double eps) {
  const std::int64_t entries = bank.shape[1];
  Token<T> token;
  for (std::int64_t n = 0; n < entries; ++n) token.values.push_back(bank.row(t * entries + n));
  token.values.push_back(prefix.row(t));
  if (run.fault("P-res-prefix-first")) std::swap(token.values.front(), token.values.back());
  if (run.fault("P-res-eps")) eps /= static_cast<double>(prefix.width());
  for (const std::span<const T> value : token.values) {
    const T mean = dot(run, value, value) / static_cast<T>(value.size());
    token.rstd.push_back(1 / std::sqrt(mean + static_cast<T>(eps)));
    std::vector<T> key(value.begin(), value.end());
    for (T& x : key) x *= token.rstd.back();
    token.probs.push_back(dot(run, std::span<const T>(key), q));
    token.keys.push_back(std::move(key));
  }
  const T top = *std::max_element(token.probs.begin(), token.probs.end());
  for (T& p : token.probs) p = std::exp(p - top);
  const T total = run.sum(token.probs);
  for (T& p : token.probs) p /= total;
  return token;
}

}  // namespace

template <class T>
AttnResRead<T> attn_res(Run<T>& run, const Array<T>& bank, const Array<T>& prefix,
                        const AttnRes& a) {
  const std::int64_t tokens = prefix.rows(), N = bank.shape[1] + 1, D = prefix.width();
  const std::vector<T> q = query(run, a);
  AttnResRead<T> out{prefix, Array<T>({tokens, N})};
  std::vector<T> terms(static_cast<std::size_t>(N));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Token<T> token = read_token<T>(run, bank, prefix, t, q, a.eps);
    std::copy(token.probs.begin(), token.probs.end(), out.probs.row(t).begin());
    for (std::int64_t d = 0; d < D; ++d) {
      const auto i = static_cast<std::size_t>(d);
      for (std::size_t n = 0; n < terms.size(); ++n)
        terms[n] = token.probs[n] *
                   (run.fault("P-res-normed-values") ? token.keys[n][i] : token.values[n][i]);
      out.y[t * D + d] = run.sum(terms);
    }
  }
  run.store(out.y);
  return out;
}

template <class T>
AttnResGradients<T> attn_res_backward(Run<T>& run, const Array<T>& bank, const Array<T>& prefix,
                                      const Array<T>& dy, const AttnRes& a) {
  const std::int64_t tokens = prefix.rows(), entries = bank.shape[1], D = prefix.width();
  const auto N = static_cast<std::size_t>(entries + 1);
  const std::vector<T> q = query(run, a);
  AttnResGradients<T> d{bank, prefix};
  Array<T> dq({tokens, D});  // by token, summed at the end
  std::vector<T> c(N), weighted(N), terms(N), product(static_cast<std::size_t>(D));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Token<T> token = read_token<T>(run, bank, prefix, t, q, a.eps);
    const std::span<const T> g = dy.row(t);
    for (std::size_t n = 0; n < N; ++n) {
      c[n] = dot(run, token.values[n], g);
      weighted[n] = token.probs[n] * c[n];
    }
    const T mean_c = run.sum(weighted);
    for (std::size_t n = 0; n < N; ++n) {
      const T ds = token.probs[n] * (c[n] - mean_c);
      const std::vector<T>& key = token.keys[n];
      for (std::size_t i = 0; i < product.size(); ++i) product[i] = ds * q[i] * key[i];
      const T mean = run.sum(product) / static_cast<T>(D);
      const std::span<T> to =
          n + 1 == N ? d.prefix.row(t) : d.bank.row(t * entries + static_cast<std::int64_t>(n));
      for (std::size_t i = 0; i < product.size(); ++i)
        to[i] = token.probs[n] * g[i] +
                (run.fault("P-res-key-path") ? 0 : token.rstd[n] * (ds * q[i] - key[i] * mean));
      weighted[n] = ds;
    }
    for (std::int64_t i = 0; i < D; ++i) {
      for (std::size_t n = 0; n < N; ++n)
        terms[n] = weighted[n] * token.keys[n][static_cast<std::size_t>(i)];
      dq[t * D + i] = run.sum(terms);
    }
  }
  Array<T> d_norm = run.param(a.norm), d_proj = run.param(a.proj);
  std::vector<T> column(static_cast<std::size_t>(tokens));
  for (std::int64_t i = 0; i < D; ++i) {
    for (std::int64_t t = 0; t < tokens; ++t) column[static_cast<std::size_t>(t)] = dq[t * D + i];
    const T sum = run.sum(column);
    const T norm = d_norm[i];
    d_norm[i] = (run.fault("P-res-dnorm") ? 1 : d_proj[i]) * sum;
    d_proj[i] = norm * sum;
  }
  run.store(d_norm);
  run.store(d_proj);
  run.param_grad(a.norm, d_norm);
  run.param_grad(a.proj, d_proj);
  run.store(d.bank);
  run.store(d.prefix);
  return d;
}

#define PARITY_INSTANTIATE(T)                                                                  \
  template AttnResRead<T> attn_res(Run<T>&, const Array<T>&, const Array<T>&, const AttnRes&); \
  template AttnResGradients<T> attn_res_backward(Run<T>&, const Array<T>&, const Array<T>&,    \
                                                 const Array<T>&, const AttnRes&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
