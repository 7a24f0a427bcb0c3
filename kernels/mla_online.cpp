// mla.online: gated multi-head latent attention on the CPU without rotation, plain and absorbed:
// dense f32 products around the online softmax of kernels/attention (kernels/mla/layer.hpp).
//   accumulate  f32 everywhere; bf16 is widened, nothing between is rounded
//   rounding    none but that of the results
//   threads     over rows of products, over heads and tiles of the softmax: the same bits for any
//               number of them
// The backward runs the forward again.
#include "kernels/mla/layer.hpp"

namespace parity::mla_kernel {
namespace {

Layer layer_of(const Launch& l) {
  const Sizes& s = l.problem.sizes;
  const Options& o = l.problem.options;
  return {.l = l,
          .prefix = "params/",
          .B = s.get("B", 1),
          .D = s["D"],
          .H = s.get("H", 1),
          .Q = s.get("Q", 0),
          .C = s["C"],
          .N = s["N"],
          .R = s["R"],
          .V = s["V"],
          .P = s.get("P", 0),
          .T = *s.find("T"),
          .gate = o.flag("gate"),
          .absorb = o.flag("absorb"),
          .causal = o.get("mask", "") != "full",
          .eps = static_cast<float>(o.real("eps", 1e-6)),
          .scale = o.real("scale", 0)};
}

void forward(const Launch& l) {
  const Layer y = layer_of(l);
  moe_kernel::store(forward(y, y.input("x", y.rows(), y.D)).y, l.problem.dtype,
                    l.out<std::byte>("y"));
}

void backward(const Launch& l) {
  const Layer y = layer_of(l);
  Trace t = forward(y, y.input("x", y.rows(), y.D));
  const Matrix dx = backward(y, t, y.input("cotangents/y", y.rows(), y.D));
  moe_kernel::store(dx, l.problem.dtype, l.out<std::byte>("grads/inputs/x"));
}

std::string refuses(const Case& c, const Options&) {
  if (!c.options.get("rope", "").empty()) return "no rotation: Kimi K3 has none";
  if (c.options.flag("bias")) return "no biases";
  if (c.options.get("mask", "") == "given") return "causal, or all keys";
  if (c.dtype == Dtype::BF16 && c.sizes["T"] == 1 && c.sizes.get("P", 0) == 0)
    return "one key in bf16: where its gradient is zero the base's f32 noise is all that bounds it";
  return c.options.flag("taps") ? "no taps" : "";
}

const Register kernel{KernelDef{
    .op = "mla",
    .name = "mla.online",
    .what = "f32 products around an online softmax over tiles of 64 keys; plain and absorbed, with "
            "a cache or without; no rotation",
    .contract = {.name = "f32",
                 .dtypes = {Dtype::F32, Dtype::BF16},
                 .accumulate = Dtype::F32,
                 .fidelity = Fidelity::Partial,  // the base has all logits before it sums
                 .invariant = {"threads"}},
    .refuses = refuses,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-AT08", "", "a tile of keys that straddles the boundary is not masked"},
               {"P-at-rescale", "", "what was summed is not rescaled when the maximum grows"},
               {"P-at-tail", "", "keys past the last sixteen of a tile are dropped"},
               {"P-at-no-delta", "", "the softmax's backward without delta"},
               {"P-mla-dkr-head", "", "gradient of k_r from one head alone"},
               {"P-mla-ungated-gradient", "", "the softmax's cotangent is not gated"}},
}};

}  // namespace
}  // namespace parity::mla_kernel
