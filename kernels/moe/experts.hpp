// A grouped mixture of experts on the CPU (formulas in references/blocks/moe.hpp): tokens sorted by
// expert, tiles of up to 64 tokens of one expert handed to threads. Inside a tile tokens lie along
// the lanes, so that weights are read as they are stored; f32 throughout. The sum over a token's
// experts runs in the order of its slots, which is that of their ids.
#pragma once

#include <string_view>

#include "kernels/moe/matrix.hpp"
#include "kernels/moe/unit.hpp"

namespace parity::moe_kernel {

// Dense weights in their storage: w1, w3 [F,W], w2 [W,F]; and where their gradients go.
struct ExpertWeights {
  const void *w1 = nullptr, *w3 = nullptr, *w2 = nullptr;
  void *d_w1 = nullptr, *d_w3 = nullptr, *d_w2 = nullptr;
};

struct Grouped {
  std::int64_t T = 0, K = 0, W = 0, F = 0;
  Dtype dtype = Dtype::F32;
  GatedUnit unit = {};
  std::vector<ExpertWeights> experts = {};
  const std::int64_t* ids = nullptr;  // [T,K], ascending within a token
  const float* weights = nullptr;     // [T,K]
  int threads = 1;
  std::string_view fault = {};
};

// z [T,W] -> u [T,W]
Matrix grouped_forward(const Grouped&, const Matrix& z);
// Writes the experts' gradients; d_weights [T,K].
struct GroupedGradients {
  Matrix z;
  std::vector<float> weights;
};
GroupedGradients grouped_backward(const Grouped&, const Matrix& z, const Matrix& d_u);

}  // namespace parity::moe_kernel
