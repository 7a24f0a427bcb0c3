// One layer of multi-head latent attention in f32 (formulas in references/blocks/mla.hpp), plain
// and absorbed, with a cache before the tokens or without; no rotation. Parameters and their
// gradients are tensors of the launch behind a prefix; x, y and their gradients are matrices of
// rows.
#pragma once

#include <string>

#include "kernels/mla/attended.hpp"
#include "kernels/moe/matrix.hpp"

namespace parity::mla_kernel {

using moe_kernel::Matrix;
using Floats = std::vector<float>;

struct Layer {
  const Launch& l;
  std::string prefix = {};  // of parameters: "params/", "params/model.layers.3.self_attn."
  std::int64_t B = 1, D = 0, H = 1, Q = 0, C = 0, N = 0, R = 0, V = 0, P = 0;  // Q 0: q_proj alone
  Size T = {};
  bool gate = false, absorb = false, causal = true;
  float eps = 1e-6F;
  double scale = 0;  // 0: (N + R)^(-1/2)

  std::int64_t rows() const { return B * T.extent; }
  std::int64_t keys() const { return B * (P + T.extent); }
  bool fault(std::string_view id) const { return !l.fault.empty() && l.fault == id; }

  Matrix input(const std::string& name, std::int64_t rows, std::int64_t cols) const;
  Matrix weight(const char* name, std::int64_t out, std::int64_t in) const;
  std::byte* gradient(const char* name, std::int64_t first = 0) const;
  Matrix map(const Matrix& x, const Matrix& w) const;
  // dx = dy w; dw = dy^T x goes where the gradient of `name` is, from element `first` on.
  Matrix map_backward(const Matrix& x, const Matrix& dy, const Matrix& w, const char* name,
                      std::int64_t first = 0) const;
  Softmax softmax() const;
};

// What the backward reads.
struct Forward {
  Matrix x, q_a, q_latent, q, kv_a, c, latents, kv;
  Floats queries, keys, values;  // of the softmax
  Matrix attn_out, gate_logit, gated;
};
struct Trace {
  Forward f;
  Attended attended;
  Matrix y;
};

Trace forward(const Layer&, Matrix x);
// Writes the gradients of parameters and of the cache; returns dx.
Matrix backward(const Layer&, Trace&, const Matrix& dy);

// y = w x / sqrt(mean x^2 + eps), and its backward: returns dx, stores dw to `to`.
Matrix normed(const Matrix& x, const Matrix& w, float eps);
Matrix normed_backward(const Matrix& x, const Matrix& dy, const Matrix& w, float eps, Dtype,
                       void* to);

}  // namespace parity::mla_kernel
