#include "references/fsdp/optimizer.hpp"

#include <cmath>

#include "harness/dist/order.hpp"
#include "harness/failure.hpp"

namespace parity::fsdp {
namespace {

using dist::rounded;

void adamw_step(const Optimizer& o, std::span<float> p, std::span<const float> g,
                OptimizerState& state) {
  const int t = ++state.steps;
  if (t == 1) {
    state.first.assign(p.size(), 0.f);
    state.second.assign(p.size(), 0.f);
  }
  const auto keep = static_cast<float>(1 - o.lr * o.decay);
  const auto w1 = static_cast<float>(1 - o.beta1), b2 = static_cast<float>(o.beta2);
  const auto w2 = static_cast<float>(1 - o.beta2), eps = static_cast<float>(o.eps);
  const auto size = static_cast<float>(-(o.lr / (1 - std::pow(o.beta1, t))));
  const auto root = static_cast<float>(std::sqrt(1 - std::pow(o.beta2, t)));
  for (std::size_t i = 0; i < p.size(); ++i) {
    float &m = state.first[i], &v = state.second[i];
    p[i] *= keep;
    m = std::fma(w1, g[i] - m, m);
    v = std::fma(w2 * g[i], g[i], b2 * v);
    p[i] += size * m / (std::sqrt(v) / root + eps);
  }
}

void sgd_step(const Optimizer& o, std::span<float> p, std::span<const float> g,
              OptimizerState& state) {
  const bool first = ++state.steps == 1;
  if (first) state.first.assign(p.size(), 0.f);
  const auto wd = static_cast<float>(o.decay), mu = static_cast<float>(o.momentum);
  const auto lr = static_cast<float>(-o.lr);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float d = std::fma(wd, p[i], g[i]);
    float& b = state.first[i];
    b = first ? d : mu * b + d;
    p[i] = std::fma(lr, b, p[i]);
  }
}

// a + alpha b of bf16 tensors: alpha is bf16 too.
void add_scaled(std::span<float> a, std::span<const float> b, double alpha) {
  constexpr std::size_t kBody = 32;  // elements of a step of the vector loop
  const float s = rounded(Dtype::BF16, static_cast<float>(alpha));
  const std::size_t body = a.size() / kBody * kBody;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float product = s * b[i];
    a[i] = rounded(Dtype::BF16, a[i] + (i < body ? product : rounded(Dtype::BF16, product)));
  }
}

void sgd_step_bf16(const Optimizer& o, std::span<float> p, std::span<const float> g,
                   OptimizerState& state) {
  std::vector<float> d(g.begin(), g.end());
  add_scaled(d, p, o.decay);
  if (++state.steps == 1) {
    state.first = d;
  } else {
    for (float& b : state.first) b = rounded(Dtype::BF16, b * static_cast<float>(o.momentum));
    add_scaled(state.first, d, 1);
  }
  add_scaled(p, state.first, -o.lr);
}

}  // namespace

Optimizer adamw() { return {}; }
Optimizer sgd() { return {.adamw = false, .lr = 0.05, .decay = 0.01}; }

std::string refuses(const Optimizer& o, Dtype dtype) {
  if (dtype == Dtype::F32 || (dtype == Dtype::BF16 && !o.adamw)) return "";
  return "no record says how " + std::string(o.adamw ? "AdamW" : "SGD") + " rounds on " +
         std::string(name(dtype)) + " parameters";
}

void step(const Optimizer& o, Dtype dtype, std::span<float> p, std::span<const float> g,
          OptimizerState& state) {
  if (const std::string why = refuses(o, dtype); !why.empty()) throw UsageError(why);
  if (o.adamw)
    adamw_step(o, p, g, state);
  else if (dtype == Dtype::F32)
    sgd_step(o, p, g, state);
  else
    sgd_step_bf16(o, p, g, state);
}

}  // namespace parity::fsdp
