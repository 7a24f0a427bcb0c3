#include "kernels/mla/attended.hpp"

#include "harness/text.hpp"

namespace parity::mla_kernel {
namespace {

Case attention_case(const Softmax& s) {
  Case c;
  c.sizes =
      Sizes{{"B", s.B, {}}, s.T, {"H", s.H, {}}, {"G", s.G, {}}, {"D", s.D, {}}, {"V", s.V, {}}};
  if (s.S != s.T.extent) c.sizes.set({"S", s.S, {}});
  c.options.set("scale", shortest(s.scale));
  c.options.set("lse", "0");
  if (!s.causal) c.options.set("causal", "0");
  return c;
}

}  // namespace

Attended::Attended(const Softmax& s, std::span<const float> q, std::span<const float> k,
                   std::span<const float> v)
    : kernel_("attention.online", attention_case(s), s.threads, s.fault) {
  kernel_.set("q", q);
  kernel_.set("k", k);
  kernel_.set("v", v);
  kernel_.forward();
}

Attended::Gradients Attended::backward(std::span<const float> d_o) {
  kernel_.set("cotangents/o", d_o);
  kernel_.backward();
  return {kernel_.out("grads/inputs/q"), kernel_.out("grads/inputs/k"),
          kernel_.out("grads/inputs/v")};
}

}  // namespace parity::mla_kernel
