// moe_experts.grouped, latent_moe.grouped, moe.grouped: f32 throughout, experts as one grouped
// product (moe/experts.hpp), everything else as dense ones.
#include <algorithm>
#include <cmath>

#include "kernels/moe/experts.hpp"
#include "kernels/moe/router.hpp"
#include "kernels/unit/rows.hpp"

namespace parity::moe_kernel {
namespace {

GatedUnit unit_of(const Case& c) {
  const bool situ = c.options.get("act", c.op == "moe" ? "silu" : "situ") == "situ";
  if (!situ) return {};
  return {.beta = static_cast<float>(c.options.real("situ_beta", 4)),
          .linear_beta = static_cast<float>(c.options.real("situ_linear_beta", 25))};
}

Grouped grouped_of(const Launch& launch, std::int64_t width) {
  const Case& c = launch.problem;
  Grouped g{.T = c.sizes["T"],
            .K = c.sizes["K"],
            .W = width,
            .F = c.sizes["F"],
            .dtype = c.dtype,
            .unit = unit_of(c),
            .threads = launch.threads,
            .fault = launch.fault};
  for (std::int64_t e = 0; e < c.sizes["E"]; ++e) {
    const std::string name = "params/experts." + std::to_string(e);
    const auto weight = [&](const char* part) { return launch.in<std::byte>(name + part); };
    const auto gradient = [&](const char* part) {
      return launch.out<std::byte>("grads/" + name + part);
    };
    g.experts.push_back({weight(".w1.weight"), weight(".w3.weight"), weight(".w2.weight"),
                         gradient(".w1.weight"), gradient(".w3.weight"), gradient(".w2.weight")});
  }
  return g;
}

void experts_forward(const Launch& launch) {
  const Case& c = launch.problem;
  Grouped g = grouped_of(launch, c.sizes["L"]);
  g.ids = launch.in<std::int64_t>("ids");
  g.weights = launch.in<float>("weights");
  const Matrix x = load(c.dtype, launch.in<std::byte>("x"), g.T, g.W);
  store(grouped_forward(g, x), c.dtype, launch.out<std::byte>("y"));
}

void experts_backward(const Launch& launch) {
  const Case& c = launch.problem;
  Grouped g = grouped_of(launch, c.sizes["L"]);
  g.ids = launch.in<std::int64_t>("ids");
  g.weights = launch.in<float>("weights");
  const Matrix x = load(c.dtype, launch.in<std::byte>("x"), g.T, g.W);
  const Matrix dy = load(c.dtype, launch.in<std::byte>("cotangents/y"), g.T, g.W);
  const GroupedGradients d = grouped_backward(g, x, dy);
  store(d.z, c.dtype, launch.out<std::byte>("grads/inputs/x"));
  std::ranges::copy(d.weights, launch.out<float>("grads/inputs/weights"));
}

// One layer's dense parameters and what its forward leaves for the backward.
struct Layer {
  const Launch& launch;
  Router router;
  std::int64_t T, D, L;
  bool latent, norm, shared;
  float eps;
  Matrix x;
  // Of the forward.
  Routed routed = {};
  Grouped experts = {};
  Matrix z = {}, u = {}, normed = {}, gate_s = {}, up_s = {}, h_s = {};

  Dtype dtype() const { return launch.problem.dtype; }
  Matrix param(const std::string& name, std::int64_t rows, std::int64_t cols) const {
    return load(dtype(), launch.in<std::byte>("params/" + name), rows, cols);
  }
  int threads() const { return launch.threads; }
};

Layer layer_of(const Launch& launch) {
  const Case& c = launch.problem;
  const bool latent = c.op == "latent_moe";
  Layer l{.launch = launch,
          .router = router_of(launch),
          .T = c.sizes["T"],
          .D = c.sizes["D"],
          .L = latent ? c.sizes["L"] : c.sizes["D"],
          .latent = latent,
          .norm = latent && c.options.integer("norm", 1) != 0,
          .shared = c.sizes.get("S", 0) > 0,
          .eps = static_cast<float>(c.options.real("norm_eps", 1e-5)),
          .x = {}};
  l.x = load(c.dtype, launch.in<std::byte>("x"), l.T, l.D);
  return l;
}

float reciprocal_rms(const Layer& l, const float* u) {
  const float squares = unit_kernel::lane_sum(l.L, [&](std::int64_t i) { return u[i] * u[i]; });
  return 1 / std::sqrt(squares / static_cast<float>(l.L) + l.eps);
}

// y, and in the layer what leads to it.
Matrix run_layer(Layer& l) {
  const Case& c = l.launch.problem;
  l.routed = route(l.router, l.x, l.param("gate.weight", l.router.E, l.D), nullptr);
  l.z = l.latent ? times_transposed(l.threads(), l.x,
                                    l.param("routed_expert_down_proj.weight", l.L, l.D))
                 : l.x;
  l.experts = grouped_of(l.launch, l.L);
  l.experts.ids = l.routed.ids.data();
  l.experts.weights = l.routed.weights.data();
  l.u = grouped_forward(l.experts, l.z);
  l.normed = l.u;
  if (l.norm && l.launch.fault != "P-moe-no-norm") {
    const Matrix gamma = l.param("routed_expert_norm.weight", 1, l.L);
    for (std::int64_t t = 0; t < l.T; ++t) {
      const float r = reciprocal_rms(l, l.u.row(t));
      for (std::int64_t i = 0; i < l.L; ++i) l.normed.row(t)[i] *= r * gamma.row(0)[i];
    }
  }
  Matrix y = l.latent ? times_transposed(l.threads(), l.normed,
                                         l.param("routed_expert_up_proj.weight", l.D, l.L))
                      : l.normed;
  if (!l.shared) return y;
  const std::int64_t S = c.sizes["S"];
  l.gate_s = times_transposed(l.threads(), l.x, l.param("shared_experts.gate_proj.weight", S, l.D));
  l.up_s = times_transposed(l.threads(), l.x, l.param("shared_experts.up_proj.weight", S, l.D));
  l.h_s = Matrix(l.T, S);
  for (std::int64_t t = 0; t < l.T; ++t)
    unit_row(l.gate_s.row(t), l.up_s.row(t), l.h_s.ld, l.experts.unit, l.h_s.row(t));
  Matrix shared =
      times_transposed(l.threads(), l.h_s, l.param("shared_experts.down_proj.weight", l.D, S));
  if (l.launch.fault == "A-MR04")
    for (float& value : shared.data) value /= l.router.scale;
  add(y, shared);
  return y;
}

void layer_forward(const Launch& launch) {
  Layer l = layer_of(launch);
  store(run_layer(l), l.dtype(), launch.out<std::byte>("y"));
  store(l.u, l.dtype(), launch.out<std::byte>("routed_sum"));
  std::ranges::copy(l.routed.ids, launch.out<std::int64_t>("ids"));
  std::ranges::copy(l.routed.load, launch.out<std::int64_t>("tokens_per_expert"));
}

// dW of y = x W^T, stored; and dx.
Matrix linear_backward(const Layer& l, const Matrix& x, const Matrix& dy, const std::string& name) {
  transposed_times(l.threads(), dy, x, 0, x.rows, l.dtype(),
                   l.launch.out<std::byte>("grads/params/" + name));
  return times(l.threads(), dy, l.param(name, dy.cols, x.cols));
}

// du; the gradient of gamma is stored.
Matrix norm_backward(const Layer& l, const Matrix& dy) {
  const Matrix gamma = l.param("routed_expert_norm.weight", 1, l.L);
  Matrix du(l.T, l.L), d_gamma(1, l.L);
  for (std::int64_t t = 0; t < l.T; ++t) {
    const float r = reciprocal_rms(l, l.u.row(t));
    const float *u = l.u.row(t), *g = dy.row(t), *w = gamma.row(0);
    const float mean =
        unit_kernel::lane_sum(l.L, [&](std::int64_t i) { return g[i] * w[i] * (u[i] * r); }) /
        static_cast<float>(l.L);
    for (std::int64_t i = 0; i < l.L; ++i) {
      du.row(t)[i] = r * (g[i] * w[i] - u[i] * r * mean);
      d_gamma.row(0)[i] += g[i] * (u[i] * r);
    }
  }
  store(d_gamma, l.dtype(), l.launch.out<std::byte>("grads/params/routed_expert_norm.weight"));
  return du;
}

void shared_backward(const Layer& l, const Matrix& dy, Matrix& dx) {
  const Matrix dh = linear_backward(l, l.h_s, dy, "shared_experts.down_proj.weight");
  Matrix again(l.T, dh.cols), d_gate(l.T, dh.cols), d_up(l.T, dh.cols);
  for (std::int64_t t = 0; t < l.T; ++t) {
    unit_row(l.gate_s.row(t), l.up_s.row(t), dh.ld, l.experts.unit, again.row(t), d_gate.row(t),
             d_up.row(t));
    for (std::int64_t i = 0; i < dh.ld; ++i) {
      d_gate.row(t)[i] *= dh.row(t)[i];
      d_up.row(t)[i] *= dh.row(t)[i];
    }
  }
  add(dx, linear_backward(l, l.x, d_gate, "shared_experts.gate_proj.weight"));
  add(dx, linear_backward(l, l.x, d_up, "shared_experts.up_proj.weight"));
}

void layer_backward(const Launch& launch) {
  Layer l = layer_of(launch);
  run_layer(l);
  const Matrix dy = load(l.dtype(), launch.in<std::byte>("cotangents/y"), l.T, l.D);
  const Matrix d_normed =
      l.latent ? linear_backward(l, l.normed, dy, "routed_expert_up_proj.weight") : dy;
  const GroupedGradients d =
      grouped_backward(l.experts, l.z, l.norm ? norm_backward(l, d_normed) : d_normed);
  Matrix dx = l.latent ? linear_backward(l, l.x, d.z, "routed_expert_down_proj.weight") : d.z;
  const Matrix d_logits = route_backward(l.router, l.routed, d.weights);
  const Matrix dx_router = linear_backward(l, l.x, d_logits, "gate.weight");
  if (launch.fault != "P-moe-dx-router") add(dx, dx_router);
  if (l.shared) shared_backward(l, dy, dx);
  store(dx, l.dtype(), launch.out<std::byte>("grads/inputs/x"));
}

const std::vector<FaultDef> kExpertFaults = {
    {"A-MR01", "", "gradient of an expert without tokens is never written"},
    {"A-MR02", "", "rows after a group's last leak into its weight gradient"},
    {"A-MR07", "", "square expert weights are transposed"},
    {"P-moe-unsorted", "", "rows are combined as if they had never been sorted"}};

KernelDef layer(std::string_view op, std::string_view name) {
  std::vector<FaultDef> faults = kExpertFaults;
  faults.insert(faults.end(), {{"A-MR04", "", "shared experts weighted by 1 / routed scale"},
                               {"A-MR08", "", "weights are gathered from the scores with the bias"},
                               {"P-moe-dx-router", "", "gradient of x without the router's part"}});
  if (op == "latent_moe") faults.push_back({"P-moe-no-norm", "", "the latent norm is left out"});
  return {.op = op,
          .name = name,
          .what = "f32, experts grouped, ties to the lowest index",
          .contract = unit_kernel::kF32Contract,
          .refuses = router_refusal,
          .forward = layer_forward,
          .backward = layer_backward,
          .faults = std::move(faults)};
}

const Register experts{KernelDef{
    .op = "moe_experts",
    .name = "moe_experts.grouped",
    .what = "f32, tokens sorted by expert, tiles of 64",
    .contract = unit_kernel::kF32Contract,
    .forward = experts_forward,
    .backward = experts_backward,
    .faults = kExpertFaults,
}};
const Register latent{layer("latent_moe", "latent_moe.grouped")};
const Register plain{layer("moe", "moe.grouped")};

}  // namespace
}  // namespace parity::moe_kernel
