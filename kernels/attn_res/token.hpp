// One token's read of block attention residuals in f32 (formulas in references/attn_res_read.cpp),
// from sources of any storage: `at(n)` is source n of N, the prefix last; query = norm * proj.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "kernels/unit/rows.hpp"

namespace parity::attn_res_kernel {

using unit_kernel::lane_sum;
using unit_kernel::widen;

struct Read {
  std::int64_t N = 0, D = 0;
  float eps = 0;
  std::string_view fault = {};
};

template <class T>
float reciprocal_rms(const Read& r, const T* x_D) {
  const float sum = lane_sum(r.D, [&](std::int64_t d) { return widen(x_D[d]) * widen(x_D[d]); });
  return 1 / std::sqrt(sum / static_cast<float>(r.D) + r.eps);
}

template <class T>
float score_of(const Read& r, const float* query_D, const T* x_D) {
  return lane_sum(r.D, [&](std::int64_t d) { return widen(x_D[d]) * query_D[d]; }) *
         reciprocal_rms(r, x_D);
}

// One online softmax: the largest score so far, the sum of weights and the weighted values,
// relative to it.
struct Online {
  float top = -INFINITY, sum = 0;
  std::vector<float> value;

  template <class T>
  void take(float score, const T* x_D, const Read& r) {
    const float next = std::max(top, score);
    const float old = std::exp(top - next), weight = std::exp(score - next);
    // A stale maximum: what was summed is not rescaled when a larger score comes.
    const float rescale = r.fault == "A-AT06" ? 1 : old;
    sum = sum * rescale + weight;
    for (std::size_t d = 0; d < value.size(); ++d)
      value[d] = value[d] * rescale + weight * widen(x_D[d]);
    top = next;
  }
};

// Value and weights; the bank first, then the prefix is merged by the usual rescaling.
template <class At>
void read(const Read& r, const float* query_D, const At& at, float* value_D, float* weights_N) {
  Online online{.value = std::vector<float>(static_cast<std::size_t>(r.D))};
  for (std::int64_t n = 0; n < r.N; ++n) {
    weights_N[n] = score_of(r, query_D, at(n));
    // The shared buffer of the bank was overwritten by the prefix: its last entry is lost.
    const bool lost = r.fault == "P-res-bank-reused" && n == r.N - 2;
    online.take(weights_N[n], lost ? at(r.N - 1) : at(n), r);
  }
  for (std::int64_t d = 0; d < r.D; ++d)
    value_D[d] = online.value[static_cast<std::size_t>(d)] / online.sum;
  for (std::int64_t n = 0; n < r.N; ++n)
    weights_N[n] = std::exp(weights_N[n] - online.top) / online.sum;
}

// put(n, d, gradient of source n's channel d); the query's gradient is added to dq.
template <class T, class At, class Put>
void read_backward(const Read& r, const float* query_D, const At& at, const T* dy_D, const Put& put,
                   float* dq_D) {
  const auto N = static_cast<std::size_t>(r.N);
  std::vector<float> p(N), rstd(N), c(N);
  float top = -INFINITY, sum = 0, mean_c = 0;
  for (std::size_t n = 0; n < N; ++n) {
    const auto* v = at(static_cast<std::int64_t>(n));
    rstd[n] = reciprocal_rms(r, v);
    p[n] = rstd[n] * lane_sum(r.D, [&](std::int64_t d) { return widen(v[d]) * query_D[d]; });
    c[n] = lane_sum(r.D, [&](std::int64_t d) { return widen(v[d]) * widen(dy_D[d]); });
    top = std::max(top, p[n]);
  }
  for (float& w : p) sum += w = std::exp(w - top);
  for (std::size_t n = 0; n < N; ++n) mean_c += (p[n] /= sum) * c[n];
  for (std::size_t n = 0; n < N; ++n) {
    const auto* v = at(static_cast<std::int64_t>(n));
    const float ds = p[n] * (c[n] - mean_c);
    const float mean = ds * rstd[n] *
                       lane_sum(r.D, [&](std::int64_t d) { return query_D[d] * widen(v[d]); }) /
                       static_cast<float>(r.D);
    for (std::int64_t d = 0; d < r.D; ++d) {
      const float key = widen(v[d]) * rstd[n];
      put(static_cast<std::int64_t>(n), d,
          p[n] * widen(dy_D[d]) + rstd[n] * (ds * query_D[d] - key * mean));
      dq_D[d] += ds * key;
    }
  }
}

}  // namespace parity::attn_res_kernel
