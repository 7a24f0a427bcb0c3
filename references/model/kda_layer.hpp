// The KDA layer in eager LibTorch, any dtype and device: parameters by state-dict name below
// `prefix` (kda.md §5, k3.md §6.2). Differently written from references/blocks: transition by
// rank-one updates of all heads at once, convolution by conv1d, everything differentiated by
// autograd. What a training run keeps wide (norms, gate, state) is f32 here, or the input's dtype
// where that is wider.
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>
#include <vector>

namespace parity::model {

using Named = std::map<std::string, at::Tensor>;

struct KdaLayerConfig {
  std::string prefix = {};
  std::int64_t H = 1, HV = 1, K = 1, V = 1;
  bool lower = true;
  double bound = -5, beta_scale = 1, l2_eps = 1e-6, norm_eps = 1e-5;
  std::vector<std::int64_t> starts = {};  // rows of x where sequences begin, and the end
};

// x [R,D] -> [R,D]
at::Tensor kda_layer(const at::Tensor& x, const Named& params, const KdaLayerConfig&);

}  // namespace parity::model
