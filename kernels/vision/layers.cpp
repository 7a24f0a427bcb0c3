#include "kernels/vision/layers.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/unit/rows.hpp"

namespace parity::vision_kernel {

using unit_kernel::lane_sum;

namespace {

float dot(const float* a, const float* b, std::int64_t n) {
  return lane_sum(n, [&](std::int64_t i) { return a[i] * b[i]; });
}

std::int64_t ssize(const Rows& x) { return static_cast<std::int64_t>(x.size()); }

}  // namespace

Rows linear(const Rows& x, const Rows& w, std::int64_t K) {
  const std::int64_t R = ssize(x) / K, N = ssize(w) / K;
  Rows y(static_cast<std::size_t>(R * N));
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t n = 0; n < N; ++n)
      y[static_cast<std::size_t>(r * N + n)] = dot(x.data() + r * K, w.data() + n * K, K);
  return y;
}

Rows linear_backward(const Rows& x, const Rows& dy, const Rows& w, std::int64_t K, Rows& dw) {
  const std::int64_t R = ssize(x) / K, N = ssize(w) / K;
  Rows dx(x.size());
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t n = 0; n < N; ++n) {
      const float g = dy[static_cast<std::size_t>(r * N + n)];
      const float *x_K = x.data() + r * K, *w_K = w.data() + n * K;
      float *dx_K = dx.data() + r * K, *dw_K = dw.data() + n * K;
      for (std::int64_t k = 0; k < K; ++k) {
        dx_K[k] += g * w_K[k];
        dw_K[k] += g * x_K[k];
      }
    }
  return dx;
}

Normed rms_norm(const Rows& x, const Rows& w, float eps) {
  const std::int64_t D = ssize(w);
  Normed n{x, x, {}};
  for (std::int64_t first = 0; first < ssize(x); first += D) {
    const float* x_D = x.data() + first;
    n.rstd.push_back(1 / std::sqrt(dot(x_D, x_D, D) / static_cast<float>(D) + eps));
    for (std::int64_t d = 0; d < D; ++d) {
      const auto i = static_cast<std::size_t>(first + d);
      n.hat[i] = x[i] * n.rstd.back();
      n.y[i] = n.hat[i] * w[static_cast<std::size_t>(d)];
    }
  }
  return n;
}

Rows rms_norm_backward(const Normed& n, const Rows& dy, const Rows& w, Rows& dw) {
  const std::int64_t D = ssize(w);
  Rows dx(dy.size());
  for (std::int64_t first = 0; first < ssize(dy); first += D) {
    const float *dy_D = dy.data() + first, *hat_D = n.hat.data() + first;
    const float mean = lane_sum(D,
                                [&](std::int64_t d) {
                                  return dy_D[d] * w[static_cast<std::size_t>(d)] * hat_D[d];
                                }) /
                       static_cast<float>(D);
    const float rstd = n.rstd[static_cast<std::size_t>(first / D)];
    for (std::int64_t d = 0; d < D; ++d) {
      const auto j = static_cast<std::size_t>(d);
      dx[static_cast<std::size_t>(first) + j] = rstd * (dy_D[d] * w[j] - hat_D[d] * mean);
      dw[j] += dy_D[d] * hat_D[d];
    }
  }
  return dx;
}

namespace {

struct GeluAt {
  float y = 0, slope = 0;
};

GeluAt gelu_at(float x, bool tanh_form) {
  constexpr float kInvRoot2 = 1 / std::numbers::sqrt2_v<float>;
  if (!tanh_form) {
    const float cdf = std::erfc(-x * kInvRoot2) / 2;
    const float pdf = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<float> * kInvRoot2;
    return {x * cdf, cdf + x * pdf};
  }
  constexpr float kBeta = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  constexpr float kCube = 0.044715F;
  const float t = std::tanh(kBeta * (x + kCube * x * x * x));
  const float half = (1 + t) / 2;
  return {x * half, half + x / 2 * (1 - t * t) * kBeta * (1 + 3 * kCube * x * x)};
}

}  // namespace

Rows gelu(const Rows& x, bool tanh_form) {
  Rows y = x;
  for (float& v : y) v = gelu_at(v, tanh_form).y;
  return y;
}

Rows gelu_backward(const Rows& x, const Rows& dy, bool tanh_form) {
  Rows dx = dy;
  for (std::size_t i = 0; i < x.size(); ++i) dx[i] *= gelu_at(x[i], tanh_form).slope;
  return dx;
}

Attention attend(const Heads& s, const Rows& q, const Rows& k, const Rows& v) {
  const auto [N, H, D] = s;
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  Attention a{Rows(static_cast<std::size_t>(H * N * N)), Rows(q.size())};
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t t = 0; t < N; ++t) {
      float* p_N = a.p.data() + (h * N + t) * N;
      for (std::int64_t u = 0; u < N; ++u)
        p_N[u] = scale * dot(q.data() + (t * H + h) * D, k.data() + (u * H + h) * D, D);
      const float top = *std::max_element(p_N, p_N + N);
      for (std::int64_t u = 0; u < N; ++u) p_N[u] = std::exp(p_N[u] - top);
      const float total = lane_sum(N, [&](std::int64_t u) { return p_N[u]; });
      float* o_D = a.o.data() + (t * H + h) * D;
      for (std::int64_t u = 0; u < N; ++u) {
        p_N[u] /= total;
        const float* v_D = v.data() + (u * H + h) * D;
        for (std::int64_t d = 0; d < D; ++d) o_D[d] += p_N[u] * v_D[d];
      }
    }
  return a;
}

AttentionGradients attend_backward(const Heads& s, const Rows& q, const Rows& k, const Rows& v,
                                   const Attention& a, const Rows& d_o) {
  const auto [N, H, D] = s;
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  AttentionGradients g{Rows(q.size()), Rows(q.size()), Rows(q.size())};
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t t = 0; t < N; ++t) {
      const std::int64_t own = (t * H + h) * D;
      const float *p_N = a.p.data() + (h * N + t) * N, *do_D = d_o.data() + own;
      const float delta = dot(do_D, a.o.data() + own, D);
      for (std::int64_t u = 0; u < N; ++u) {
        const std::int64_t other = (u * H + h) * D;
        const float dz = p_N[u] * (dot(do_D, v.data() + other, D) - delta) * scale;
        for (std::int64_t d = 0; d < D; ++d) {
          g.q[static_cast<std::size_t>(own + d)] += dz * k[static_cast<std::size_t>(other + d)];
          g.k[static_cast<std::size_t>(other + d)] += dz * q[static_cast<std::size_t>(own + d)];
          g.v[static_cast<std::size_t>(other + d)] += p_N[u] * do_D[d];
        }
      }
    }
  return g;
}

void add(Rows& to, const Rows& what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
}

}  // namespace parity::vision_kernel
