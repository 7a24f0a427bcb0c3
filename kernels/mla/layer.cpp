#include "kernels/mla/layer.hpp"

#include <cmath>

#include "kernels/unit/rows.hpp"

namespace parity::mla_kernel {

Matrix Layer::input(const std::string& name, std::int64_t rows, std::int64_t cols) const {
  return moe_kernel::load(l.problem.dtype, l.in<std::byte>(name), rows, cols);
}
Matrix Layer::weight(const char* name, std::int64_t out, std::int64_t in) const {
  return input(prefix + name + ".weight", out, in);
}
std::byte* Layer::gradient(const char* name, std::int64_t first) const {
  return l.out<std::byte>("grads/" + prefix + name + ".weight") + bytes_for(l.problem.dtype, first);
}
Matrix Layer::map(const Matrix& x, const Matrix& w) const {
  return moe_kernel::times_transposed(l.threads, x, w);
}
Matrix Layer::map_backward(const Matrix& x, const Matrix& dy, const Matrix& w, const char* name,
                           std::int64_t first) const {
  moe_kernel::transposed_times(l.threads, dy, x, 0, x.rows, l.problem.dtype, gradient(name, first));
  return moe_kernel::times(l.threads, dy, w);
}
Softmax Layer::softmax() const {
  return {.B = B,
          .S = P + T.extent,
          .H = H,
          .G = absorb ? 1 : H,
          .D = absorb ? C + R : N + R,
          .V = absorb ? C : V,
          .T = T,
          .causal = causal,
          .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(N + R)),
          .threads = l.threads,
          .fault = l.fault};
}

namespace {

// ---- columns of matrices, and of dense buffers of rows of `width`

Matrix columns(const float* from, std::int64_t rows, std::int64_t stride, std::int64_t count) {
  Matrix m(rows, count);
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * stride, count, m.row(r));
  return m;
}
Matrix columns(const Matrix& x, std::int64_t first, std::int64_t count) {
  return columns(x.data.data() + first, x.rows, x.ld, count);
}
void put(const Matrix& x, std::int64_t first, std::int64_t count, float* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < x.rows; ++r) std::copy_n(x.row(r) + first, count, to + r * stride);
}
Matrix rows_of(const Matrix& x, std::int64_t first, std::int64_t count) {
  return columns(x.row(first), count, x.ld, x.cols);
}

// Rows of all keys: P cached ones before the T new ones of each sequence; and the two apart.
Matrix behind(const Matrix& cached, const Matrix& fresh, const Layer& y) {
  if (y.P == 0) return fresh;
  Matrix all(y.keys(), fresh.cols);
  for (std::int64_t b = 0; b < y.B; ++b) {
    put(rows_of(cached, b * y.P, y.P), 0, all.cols, all.row(b * (y.P + y.T.extent)), all.ld);
    put(rows_of(fresh, b * y.T.extent, y.T.extent), 0, all.cols,
        all.row(b * (y.P + y.T.extent) + y.P), all.ld);
  }
  return all;
}
Matrix part(const Matrix& all, const Layer& y, bool cached) {
  const std::int64_t count = cached ? y.P : y.T.extent, first = cached ? 0 : y.P;
  Matrix some(y.B * count, all.cols);
  for (std::int64_t b = 0; b < y.B; ++b)
    put(rows_of(all, b * (y.P + y.T.extent) + first, count), 0, all.cols, some.row(b * count),
        some.ld);
  return some;
}

// ---- norms

float reciprocal_rms(const float* x, std::int64_t n, float eps) {
  const float sum = unit_kernel::lane_sum(n, [&](std::int64_t i) { return x[i] * x[i]; });
  return 1 / std::sqrt(sum / static_cast<float>(n) + eps);
}

}  // namespace

Matrix normed(const Matrix& a, const Matrix& w, float eps) {
  Matrix out(a.rows, a.cols);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float rstd = reciprocal_rms(a.row(r), a.cols, eps);
    for (std::int64_t i = 0; i < a.cols; ++i) out.row(r)[i] = a.row(r)[i] * rstd * w.row(0)[i];
  }
  return out;
}

Matrix normed_backward(const Matrix& a, const Matrix& dy, const Matrix& w, float eps, Dtype dtype,
                       void* to) {
  Matrix d(a.rows, a.cols), dw(1, a.cols);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float *x = a.row(r), *g = dy.row(r);
    const float rstd = reciprocal_rms(x, a.cols, eps);
    const float along =
        unit_kernel::lane_sum(a.cols,
                              [&](std::int64_t i) { return w.row(0)[i] * g[i] * (x[i] * rstd); }) /
        static_cast<float>(a.cols);
    for (std::int64_t i = 0; i < a.cols; ++i) {
      const float hat = x[i] * rstd;
      d.row(r)[i] = rstd * (w.row(0)[i] * g[i] - hat * along);
      dw.row(0)[i] += g[i] * hat;
    }
  }
  moe_kernel::store(dw, dtype, to);
  return d;
}

// ---- forward

namespace {

Matrix head_of_kv_b(const Layer& y, const Matrix& w, std::int64_t h, bool value) {
  return rows_of(w, h * (y.N + y.V) + (value ? y.N : 0), value ? y.V : y.N);
}

// What the softmax sees in the plain form: keys [k_n | k_r] of every head.
void expand(const Layer& y, Forward& f, const Matrix& k_r) {
  f.kv = y.map(f.latents, y.weight("kv_b_proj", y.H * (y.N + y.V), y.C));
  const std::int64_t D = y.N + y.R;
  f.queries.resize(static_cast<std::size_t>(y.rows() * y.H * D));
  f.keys.resize(static_cast<std::size_t>(y.keys() * y.H * D));
  f.values.resize(static_cast<std::size_t>(y.keys() * y.H * y.V));
  put(f.q, 0, y.H * D, f.queries.data(), y.H * D);
  for (std::int64_t h = 0; h < y.H; ++h) {
    float* k = f.keys.data() + h * D;
    put(f.kv, h * (y.N + y.V), y.N, k, y.H * D);
    put(k_r, 0, y.R, k + y.N, y.H * D);
    put(f.kv, h * (y.N + y.V) + y.N, y.V, f.values.data() + h * y.V, y.H * y.V);
  }
}

// In the absorbed form: queries q_n W_K against the latents themselves, one key head of C + R.
void absorb(const Layer& y, Forward& f, const Matrix& k_r) {
  const Matrix w = y.weight("kv_b_proj", y.H * (y.N + y.V), y.C);
  const std::int64_t D = y.C + y.R;
  f.queries.resize(static_cast<std::size_t>(y.rows() * y.H * D));
  f.keys.resize(static_cast<std::size_t>(y.keys() * D));
  f.values.resize(static_cast<std::size_t>(y.keys() * y.C));
  for (std::int64_t h = 0; h < y.H; ++h) {
    const std::int64_t first = h * (y.N + y.R);
    float* q = f.queries.data() + h * D;
    put(moe_kernel::times(y.l.threads, columns(f.q, first, y.N), head_of_kv_b(y, w, h, false)), 0,
        y.C, q, y.H * D);
    put(columns(f.q, first + y.N, y.R), 0, y.R, q + y.C, y.H * D);
  }
  put(f.latents, 0, y.C, f.keys.data(), D);
  put(k_r, 0, y.R, f.keys.data() + y.C, D);
  put(f.latents, 0, y.C, f.values.data(), y.C);
}

Matrix output_of(const Layer& y, std::span<const float> o) {
  if (!y.absorb) return columns(o.data(), y.rows(), y.H * y.V, y.H * y.V);
  const Matrix w = y.weight("kv_b_proj", y.H * (y.N + y.V), y.C);
  Matrix out(y.rows(), y.H * y.V);
  for (std::int64_t h = 0; h < y.H; ++h)
    put(y.map(columns(o.data() + h * y.C, y.rows(), y.H * y.C, y.C), head_of_kv_b(y, w, h, true)),
        0, y.V, out.row(0) + h * y.V, out.ld);
  return out;
}

Forward before_softmax(const Layer& y, Matrix x) {
  Forward f;
  f.x = std::move(x);
  const std::int64_t wide = y.H * (y.N + y.R);
  if (y.Q > 0) {
    f.q_a = y.map(f.x, y.weight("q_a_proj", y.Q, y.D));
    f.q_latent = normed(f.q_a, y.weight("q_a_layernorm", 1, y.Q), y.eps);
    f.q = y.map(f.q_latent, y.weight("q_b_proj", wide, y.Q));
  } else {
    f.q = y.map(f.x, y.weight("q_proj", wide, y.D));
  }
  f.kv_a = y.map(f.x, y.weight("kv_a_proj_with_mqa", y.C + y.R, y.D));
  f.c = columns(f.kv_a, 0, y.C);
  f.latents = normed(f.c, y.weight("kv_a_layernorm", 1, y.C), y.eps);
  Matrix k_r = columns(f.kv_a, y.C, y.R);
  if (y.P > 0) {
    f.latents = behind(y.input("cache/kv_latent", y.B * y.P, y.C), f.latents, y);
    k_r = behind(y.input("cache/k_r", y.B * y.P, y.R), k_r, y);
  }
  y.absorb ? absorb(y, f, k_r) : expand(y, f, k_r);
  return f;
}

Attended attend(const Layer& y, Forward& f) {
  Attended a(y.softmax(), f.queries, f.keys, f.values);
  f.attn_out = output_of(y, a.o());
  f.gated = f.attn_out;
  if (y.gate) {
    f.gate_logit = y.map(f.x, y.weight("g_proj", y.H * y.V, y.D));
    for (std::size_t i = 0; i < f.gated.data.size(); ++i)
      f.gated.data[i] *= unit_kernel::sigmoid(f.gate_logit.data[i]);
  }
  return a;
}

}  // namespace

Trace forward(const Layer& y, Matrix x) {
  Forward f = before_softmax(y, std::move(x));
  Attended a = attend(y, f);
  Matrix out = y.map(f.gated, y.weight("o_proj", y.D, y.H * y.V));
  return {std::move(f), std::move(a), std::move(out)};
}

// ---- backward

namespace {

// From the gated output to what the softmax gave; the gate's part of dx is added.
Matrix gate_backward(const Layer& y, const Forward& f, Matrix d, Matrix& dx) {
  if (!y.gate) return d;
  Matrix d_logit = d;
  for (std::size_t i = 0; i < d.data.size(); ++i) {
    const float z = f.gate_logit.data[i], open = unit_kernel::sigmoid(z);
    d_logit.data[i] *= f.attn_out.data[i] * (open * unit_kernel::sigmoid(-z));
    d.data[i] *= y.fault("P-mla-ungated-gradient") ? 1 : open;
  }
  moe_kernel::add(dx, y.map_backward(f.x, d_logit, y.weight("g_proj", y.H * y.V, y.D), "g_proj"));
  return d;
}

// Of the softmax's own output: of u = P ct where W_V stands behind it.
Floats before_values(const Layer& y, std::span<const float> u, const Matrix& d) {
  const std::int64_t width = y.absorb ? y.C : y.V;
  Floats out(static_cast<std::size_t>(y.rows() * y.H * width));
  if (!y.absorb) {
    put(d, 0, d.cols, out.data(), d.cols);
    return out;
  }
  const Matrix w = y.weight("kv_b_proj", y.H * (y.N + y.V), y.C);
  for (std::int64_t h = 0; h < y.H; ++h)
    put(y.map_backward(columns(u.data() + h * y.C, y.rows(), y.H * y.C, y.C),
                       columns(d, h * y.V, y.V), head_of_kv_b(y, w, h, true), "kv_b_proj",
                       (h * (y.N + y.V) + y.N) * y.C),
        0, y.C, out.data() + h * y.C, y.H * y.C);
  return out;
}

Matrix query_gradient(const Layer& y, const Forward& f, std::span<const float> dq) {
  const std::int64_t D = y.absorb ? y.C + y.R : y.N + y.R, wide = y.H * (y.N + y.R);
  if (!y.absorb) return columns(dq.data(), y.rows(), wide, wide);
  const Matrix w = y.weight("kv_b_proj", y.H * (y.N + y.V), y.C);
  Matrix out(y.rows(), wide);
  for (std::int64_t h = 0; h < y.H; ++h) {
    const std::int64_t first = h * (y.N + y.R);
    const Matrix d_c = columns(dq.data() + h * D, y.rows(), y.H * D, y.C);
    moe_kernel::transposed_times(y.l.threads, columns(f.q, first, y.N), d_c, 0, y.rows(),
                                 y.l.problem.dtype, y.gradient("kv_b_proj", h * (y.N + y.V) * y.C));
    put(y.map(d_c, head_of_kv_b(y, w, h, false)), 0, y.N, out.row(0) + first, out.ld);
    put(columns(dq.data() + h * D + y.C, y.rows(), y.H * D, y.R), 0, y.R, out.row(0) + first + y.N,
        out.ld);
  }
  return out;
}

// Of all keys' latents, cached ones too.
Matrix latent_gradient(const Layer& y, const Forward& f, const Attended::Gradients& d) {
  if (y.absorb) {
    Matrix sum = columns(d.k.data(), y.keys(), y.C + y.R, y.C);
    moe_kernel::add(sum, columns(d.v.data(), y.keys(), y.C, y.C));
    return sum;
  }
  const std::int64_t D = y.N + y.R, wide = y.H * (y.N + y.V);
  Matrix d_kv(y.keys(), wide);
  for (std::int64_t h = 0; h < y.H; ++h) {
    float* to = d_kv.row(0) + h * (y.N + y.V);
    put(columns(d.k.data() + h * D, y.keys(), y.H * D, y.N), 0, y.N, to, d_kv.ld);
    put(columns(d.v.data() + h * y.V, y.keys(), y.H * y.V, y.V), 0, y.V, to + y.N, d_kv.ld);
  }
  return y.map_backward(f.latents, d_kv, y.weight("kv_b_proj", wide, y.C), "kv_b_proj");
}

// The shared channels' gradient: summed over the heads that read them, in their order.
Matrix shared_gradient(const Layer& y, std::span<const float> dk) {
  const std::int64_t D = y.absorb ? y.C + y.R : y.N + y.R, G = y.absorb ? 1 : y.H;
  const std::int64_t heads = y.fault("P-mla-dkr-head") ? 1 : G;
  Matrix sum(y.keys(), y.R);
  for (std::int64_t h = 0; h < heads; ++h)
    moe_kernel::add(sum, columns(dk.data() + h * D + D - y.R, y.keys(), G * D, y.R));
  return sum;
}

}  // namespace

Matrix backward(const Layer& y, Trace& t, const Matrix& dy) {
  const Forward& f = t.f;
  const Dtype dtype = y.l.problem.dtype;
  Matrix dx(y.rows(), y.D);
  const Matrix d_gated = y.map_backward(f.gated, dy, y.weight("o_proj", y.D, y.H * y.V), "o_proj");
  const Matrix d_out = gate_backward(y, f, d_gated, dx);
  const Attended::Gradients d = t.attended.backward(before_values(y, t.attended.o(), d_out));

  const Matrix dq = query_gradient(y, f, d.q);
  const std::int64_t wide = y.H * (y.N + y.R);
  if (y.Q > 0) {
    const Matrix d_latent =
        y.map_backward(f.q_latent, dq, y.weight("q_b_proj", wide, y.Q), "q_b_proj");
    const Matrix d_a = normed_backward(f.q_a, d_latent, y.weight("q_a_layernorm", 1, y.Q), y.eps,
                                       dtype, y.gradient("q_a_layernorm"));
    moe_kernel::add(dx, y.map_backward(f.x, d_a, y.weight("q_a_proj", y.Q, y.D), "q_a_proj"));
  } else {
    moe_kernel::add(dx, y.map_backward(f.x, dq, y.weight("q_proj", wide, y.D), "q_proj"));
  }

  const Matrix d_latents = latent_gradient(y, f, d), d_shared = shared_gradient(y, d.k);
  if (y.P > 0) {
    moe_kernel::store(part(d_latents, y, true), dtype,
                      y.l.out<std::byte>("grads/inputs/cache/kv_latent"));
    moe_kernel::store(part(d_shared, y, true), dtype, y.l.out<std::byte>("grads/inputs/cache/k_r"));
  }
  Matrix d_kv_a(y.rows(), y.C + y.R);
  put(normed_backward(f.c, part(d_latents, y, false), y.weight("kv_a_layernorm", 1, y.C), y.eps,
                      dtype, y.gradient("kv_a_layernorm")),
      0, y.C, d_kv_a.row(0), d_kv_a.ld);
  put(part(d_shared, y, false), 0, y.R, d_kv_a.row(0) + y.C, d_kv_a.ld);
  moe_kernel::add(dx, y.map_backward(f.x, d_kv_a, y.weight("kv_a_proj_with_mqa", y.C + y.R, y.D),
                                     "kv_a_proj_with_mqa"));
  return dx;
}

}  // namespace parity::mla_kernel
