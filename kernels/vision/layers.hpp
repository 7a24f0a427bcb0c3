// Layers of the vision tower on rows of f32, one item at a time: plain loops, sums in eight lanes.
#pragma once

#include <cstdint>
#include <vector>

namespace parity::vision_kernel {

using Rows = std::vector<float>;

// y[R,N] = x[R,K] w[N,K]^T
Rows linear(const Rows& x, const Rows& w, std::int64_t K);
// Returns dx = dy w; dw += dy^T x.
Rows linear_backward(const Rows& x, const Rows& dy, const Rows& w, std::int64_t K, Rows& dw);

// y = w hat, hat = x / sqrt(mean x^2 + eps); D is the size of w.
struct Normed {
  Rows y = {}, hat = {}, rstd = {};
};
Normed rms_norm(const Rows& x, const Rows& w, float eps);
// Returns dx; dw += sum_rows dy hat.
Rows rms_norm_backward(const Normed&, const Rows& dy, const Rows& w, Rows& dw);

Rows gelu(const Rows& x, bool tanh_form);
Rows gelu_backward(const Rows& x, const Rows& dy, bool tanh_form);

// q, k, v and o [N,H,D]; p [H,N,N].
struct Heads {
  std::int64_t N = 0, H = 0, D = 0;
};
struct Attention {
  Rows p = {}, o = {};
};
Attention attend(const Heads&, const Rows& q, const Rows& k, const Rows& v);
struct AttentionGradients {
  Rows q = {}, k = {}, v = {};
};
AttentionGradients attend_backward(const Heads&, const Rows& q, const Rows& k, const Rows& v,
                                   const Attention&, const Rows& d_o);

void add(Rows& to, const Rows& what);

}  // namespace parity::vision_kernel
