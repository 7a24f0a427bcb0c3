// Routing by rows in f32 on the CPU (rule and formulas in references/blocks/router.hpp): logits of
// all tokens as one product, then each token by itself. Ties: the lowest index wins.
#pragma once

#include <string>
#include <string_view>

#include "harness/kernel.hpp"
#include "kernels/moe/matrix.hpp"

namespace parity::moe_kernel {

enum class Score : std::uint8_t { Sigmoid, Softmax, TopkSoftmax };

struct Router {
  std::int64_t T = 0, D = 0, E = 0, K = 0, groups = 1, top_groups = 1;
  Score score = Score::Sigmoid;
  bool renorm = true;
  float eps = 1e-20F, scale = 1;
  const float* bias = nullptr;          // [E], of the choice
  const std::int64_t* given = nullptr;  // [T,K]: a replayed choice
  int threads = 1;
  std::string_view fault = {};
};
Router router_of(const Launch&);
std::string router_refusal(const Case&, const Options&);

struct Routed {
  Matrix logits, scores;  // [T,E]
  std::vector<std::int64_t> ids, load;
  std::vector<float> weights, margin;
};
// `linear_bias` [E] or null.
Routed route(const Router&, const Matrix& x, const Matrix& gate, const Matrix* linear_bias);
// Gradient of the logits from d_weights [T,K].
Matrix route_backward(const Router&, const Routed&, const std::vector<float>& d_weights);

}  // namespace parity::moe_kernel
