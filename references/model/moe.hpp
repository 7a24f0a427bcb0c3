// Routers and mixtures of experts in eager LibTorch, any dtype and device: parameters by state-dict
// name below `prefix` (k3.md §3, §6.2). Written apart from references/blocks: topk, gather and
// masks by LibTorch, experts in a loop, everything differentiated by autograd. Gate, routing
// weights and the sum over experts are f32, or the input's dtype where that is wider.
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>

namespace parity::model {

using Named = std::map<std::string, at::Tensor>;

struct RouterConfig {
  std::string prefix = "gate.";
  std::string score = "sigmoid";  // "softmax", "topk_softmax"
  std::int64_t k = 1, groups = 1, top_groups = 1;
  bool renorm = true;
  double eps = 1e-20, scale = 1;
};
struct Routing {
  at::Tensor logits;   // [T,E]
  at::Tensor scores;   // [T,E] without the correction bias
  at::Tensor ids;      // [T,k] ascending
  at::Tensor weights;  // [T,k]
  at::Tensor margin;   // [T]; undefined where there is no other choice
};
// `given` [T,k]: a replayed choice.
Routing route(const at::Tensor& x, const Named& params, const RouterConfig&,
              const at::Tensor& given = {});

struct UnitConfig {
  double beta = 0, linear_beta = 0;  // 0: SwiGLU; up as it is
};
// sum_k weights E_ids(x); x [T,W]
at::Tensor experts(const at::Tensor& x, const at::Tensor& ids, const at::Tensor& weights,
                   const Named& params, const std::string& prefix, std::int64_t count,
                   const UnitConfig&);
// The same as three grouped products over tokens sorted by expert (at::_grouped_mm): bf16, widths
// that are multiples of 8. narrow: weighted outputs and their sum are kept in x's dtype, expert
// after expert (k3.md §3.3, the common torchtitan layer).
at::Tensor experts_grouped(const at::Tensor& x, const at::Tensor& ids, const at::Tensor& weights,
                           const Named& params, const std::string& prefix, std::int64_t count,
                           const UnitConfig&, bool narrow);

struct MoeConfig {
  std::string prefix = {};
  RouterConfig router = {};  // its prefix follows that of the layer
  UnitConfig unit = {};
  std::int64_t experts = 1;
  bool latent = true, norm = true, shared = true;
  double norm_eps = 1e-5;
};
struct MoeOutput {
  at::Tensor y, routed_sum;
  Routing routing;
};
MoeOutput moe(const at::Tensor& x, const Named& params, const MoeConfig&,
              const at::Tensor& given = {});

}  // namespace parity::model
