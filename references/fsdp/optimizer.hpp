// AdamW and SGD on a shard, rounding by rounding as PyTorch 2.11 does on a CPU (fsdp2.md, fact 10).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/dtype.hpp"

namespace parity::fsdp {

struct Optimizer {
  bool adamw = true;  // else SGD with momentum
  double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, momentum = 0.9;
};
Optimizer adamw();
Optimizer sgd();

struct OptimizerState {
  std::vector<float> first = {}, second = {};  // moments; SGD's momentum is the first
  int steps = 0;
};
// `dtype` of the parameter: f32 elementwise; bf16 only for SGD, whose vector body of 32 elements
// rounds once and whose tail rounds twice, so that a bf16 step depends on where shards end.
void step(const Optimizer&, Dtype dtype, std::span<float> parameter,
          std::span<const float> gradient, OptimizerState&);
std::string refuses(const Optimizer&, Dtype);  // "" = it steps parameters of that dtype

}  // namespace parity::fsdp
