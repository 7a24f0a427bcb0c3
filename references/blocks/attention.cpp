#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/failure.hpp"
#include "references/blocks/layers.hpp"
#include "references/blocks/scalar.hpp"

namespace parity::net {
namespace {

// Heads of one row, [H, width].
template <class T>
std::span<const T> head(const Array<T>& x, std::int64_t row, std::int64_t h) {
  return x.row(row * x.shape[1] + h);
}
template <class T>
std::span<T> head(Array<T>& x, std::int64_t row, std::int64_t h) {
  return x.row(row * x.shape[1] + h);
}

}  // namespace

template <class T>
Attended<T> attention(Run<T>& run, const Array<T>& q, const Array<T>& k, const Array<T>& v,
                      double scale, const std::vector<Keys>& keys) {
  const std::int64_t R = q.shape[0], H = q.shape[1], S = k.shape[0], Dv = v.shape[2];
  if (static_cast<std::int64_t>(keys.size()) != R || k.shape[1] != H || v.shape[1] != H)
    throw Failure("shapes of an attention do not fit");
  Attended<T> out{Array<T>({R, H, Dv}), Array<T>({R, H, S}), Array<T>({R, H})};
  std::vector<T> terms;
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t h = 0; h < H; ++h) {
      const auto [first, last, flat] = keys[static_cast<std::size_t>(r)];
      const std::span<T> p = head(out.p, r, h);
      T top = -std::numeric_limits<T>::infinity();
      for (std::int64_t s = first; s < last; ++s) {
        const T z = flat ? T{0} : static_cast<T>(scale) * dot(run, head(q, r, h), head(k, s, h));
        p[static_cast<std::size_t>(s)] = z;
        top = std::max(top, z);
      }
      const std::span<T> seen =
          p.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
      for (T& x : seen) x = std::exp(x - top);
      const T total = run.sum(seen);
      out.lse[r * H + h] =
          seen.empty() ? -std::numeric_limits<T>::infinity() : top + std::log(total);
      for (T& x : seen) x /= total;
    }
  run.store(out.p);
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t h = 0; h < H; ++h) {
      const Keys seen = keys[static_cast<std::size_t>(r)];
      for (std::int64_t d = 0; d < Dv; ++d) {
        terms.clear();
        for (std::int64_t s = seen.first; s < seen.last; ++s)
          terms.push_back(out.p[(r * H + h) * S + s] * v[(s * H + h) * Dv + d]);
        out.o[(r * H + h) * Dv + d] = run.sum(terms);
      }
    }
  run.store(out.o);
  return out;
}

template <class T>
AttentionGradients<T> attention_backward(Run<T>& run, const Array<T>& q, const Array<T>& k,
                                         const Array<T>& v, const Attended<T>& a,
                                         const Array<T>& d_o, double scale,
                                         const std::vector<Keys>& keys) {
  const std::int64_t R = q.shape[0], H = q.shape[1], S = k.shape[0], Dk = q.shape[2],
                     Dv = v.shape[2];
  AttentionGradients<T> d{q, k, v};
  Array<T> dz({R, H, S});
  std::vector<T> terms;
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t h = 0; h < H; ++h) {
      const Keys seen = keys[static_cast<std::size_t>(r)];
      const std::span<const T> p = head(a.p, r, h);
      const std::span<T> row = head(dz, r, h);
      std::vector<T> weighted;
      for (std::int64_t s = seen.first; s < seen.last; ++s) {
        const auto i = static_cast<std::size_t>(s);
        row[i] = dot(run, head(d_o, r, h), head(v, s, h));
        weighted.push_back(p[i] * row[i]);
      }
      const T delta = run.sum(weighted);
      for (std::int64_t s = seen.first; s < seen.last; ++s) {
        const auto i = static_cast<std::size_t>(s);
        row[i] = p[i] * (row[i] - delta) * static_cast<T>(scale);
      }
    }
  run.store(dz);
  for (std::int64_t h = 0; h < H; ++h) {
    for (std::int64_t r = 0; r < R; ++r) {
      const Keys seen = keys[static_cast<std::size_t>(r)];
      for (std::int64_t i = 0; i < Dk; ++i) {
        terms.clear();
        for (std::int64_t s = seen.first; s < seen.last; ++s)
          terms.push_back(dz[(r * H + h) * S + s] * k[(s * H + h) * Dk + i]);
        d.q[(r * H + h) * Dk + i] = run.sum(terms);
      }
    }
    for (std::int64_t s = 0; s < S; ++s) {
      std::vector<std::int64_t> readers;
      for (std::int64_t r = 0; r < R; ++r) {
        const Keys& seen = keys[static_cast<std::size_t>(r)];
        if (s >= seen.first && s < seen.last) readers.push_back(r);
      }
      for (std::int64_t i = 0; i < Dk; ++i) {
        terms.clear();
        for (const std::int64_t r : readers)
          terms.push_back(dz[(r * H + h) * S + s] * q[(r * H + h) * Dk + i]);
        d.k[(s * H + h) * Dk + i] = run.sum(terms);
      }
      for (std::int64_t i = 0; i < Dv; ++i) {
        terms.clear();
        for (const std::int64_t r : readers)
          terms.push_back(a.p[(r * H + h) * S + s] * d_o[(r * H + h) * Dv + i]);
        d.v[(s * H + h) * Dv + i] = run.sum(terms);
      }
    }
  }
  run.store(d.q);
  run.store(d.k);
  run.store(d.v);
  return d;
}

#define PARITY_INSTANTIATE(T)                                                                \
  template Attended<T> attention(Run<T>&, const Array<T>&, const Array<T>&, const Array<T>&, \
                                 double, const std::vector<Keys>&);                          \
  template AttentionGradients<T> attention_backward(                                         \
      Run<T>&, const Array<T>&, const Array<T>&, const Array<T>&, const Attended<T>&,        \
      const Array<T>&, double, const std::vector<Keys>&);
PARITY_INSTANTIATE(double)
PARITY_INSTANTIATE(float)
#undef PARITY_INSTANTIATE

}  // namespace parity::net
