// kda_gate.rows: elementwise in f32; gradients of A_log and dt_bias summed over tokens in 16 slots
// whose partial sums are added in order, so that the number of threads never shows. softplus by
// log1p. Workspace of the backward: 16 (HV K + HV) floats.
#include "kernels/unit/rows.hpp"

namespace parity::unit_kernel {
namespace {

struct Gate {
  std::int64_t tokens = 0, HV = 0, K = 0;
  bool softplus = true;
  float lower = 0;
  std::string_view fault = {};
  const float* A_log_H = nullptr;
  const float* bias_HK = nullptr;

  std::int64_t width() const { return HV * K; }
  float exp_A(std::int64_t channel) const {
    const std::int64_t head = channel / K;
    return A_log_H == nullptr ? 1 : std::exp(A_log_H[fault == "F-11" ? head / 2 : head]);
  }
};

Gate gate_of(const Launch& launch) {
  const Case& c = launch.problem;
  return {.tokens = c.sizes.get("B", 1) * c.sizes["T"],
          .HV = c.sizes["HV"],
          .K = c.sizes["K"],
          .softplus = c.options.get("gate", "softplus") == "softplus",
          .lower = static_cast<float>(c.options.real("lb", -5)),
          .fault = launch.fault,
          .A_log_H = launch.in<float>("A_log"),
          .bias_HK = launch.in<float>("dt_bias")};
}

struct Point {
  float z = 0, g = 0, slope = 0;
};

Point point(const Gate& gate, float x, std::int64_t channel, float exp_A) {
  constexpr float kLinear = 20;
  Point p;
  p.z = gate.bias_HK == nullptr ? x : x + gate.bias_HK[channel];
  if (gate.softplus) {
    const bool linear = p.z > kLinear && gate.fault != "P-no-threshold";
    const float sp = linear                           ? p.z
                     : gate.fault == "P-no-threshold" ? std::log(1 + std::exp(p.z))
                                                      : std::log1p(std::exp(p.z));
    p.g = -exp_A * sp;
    p.slope = -exp_A * (linear ? 1 : sigmoid(p.z));
  } else {
    const float s = sigmoid(exp_A * p.z);
    p.g = gate.lower * s;
    p.slope = gate.lower * s * (1 - s) * exp_A;
  }
  return p;
}

template <class T>
void forward_tokens(const Launch& launch, const Gate& gate) {
  const T* x = launch.in<T>("g_raw");
  float* g = launch.out<float>("g");
  for_slots(launch.threads, kSlots, [&](std::int64_t slot) {
    for (std::int64_t c = 0; c < gate.width(); ++c) {
      const float exp_A = gate.exp_A(c);
      for (std::int64_t t = slot_edge(slot, kSlots, gate.tokens);
           t < slot_edge(slot + 1, kSlots, gate.tokens); ++t)
        g[t * gate.width() + c] = point(gate, widen(x[t * gate.width() + c]), c, exp_A).g;
    }
  });
}

template <class T>
void backward_tokens(const Launch& launch, const Gate& gate) {
  const T* x = launch.in<T>("g_raw");
  const float* dg = launch.in<float>("cotangents/g");
  T* dx = launch.out<T>("grads/g_raw");
  auto* part = reinterpret_cast<float*>(launch.workspace.data());
  const std::int64_t stride = gate.width() + gate.HV;
  for_slots(launch.threads, kSlots, [&](std::int64_t slot) {
    float* part_bias = part + slot * stride;
    float* part_A = part_bias + gate.width();
    std::fill(part_bias, part_bias + stride, 0.0F);
    for (std::int64_t c = 0; c < gate.width(); ++c) {
      const float exp_A = gate.exp_A(c);
      for (std::int64_t t = slot_edge(slot, kSlots, gate.tokens);
           t < slot_edge(slot + 1, kSlots, gate.tokens); ++t) {
        const std::int64_t i = t * gate.width() + c;
        const Point p = point(gate, widen(x[i]), c, exp_A);
        const float d = dg[i] * p.slope;
        narrow(d, dx[i]);
        part_bias[c] += gate.fault == "F-38" ? float_from_bf16(bf16_from_float(d)) : d;
        part_A[c / gate.K] += gate.softplus ? dg[i] * p.g : d * p.z;
      }
    }
  });
  const auto collect = [&](const char* name, std::int64_t first, std::int64_t n) {
    float* to = launch.out<float>(name);
    if (to == nullptr) return;
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t slot = 0; slot < kSlots; ++slot) sum += part[slot * stride + first + j];
      to[j] = sum;
    }
  };
  collect("grads/dt_bias", 0, gate.width());
  collect("grads/A_log", gate.width(), gate.HV);
}

void forward(const Launch& launch) {
  with_storage(launch.problem.dtype,
               [&]<class T>(T) { forward_tokens<T>(launch, gate_of(launch)); });
}

void backward(const Launch& launch) {
  with_storage(launch.problem.dtype,
               [&]<class T>(T) { backward_tokens<T>(launch, gate_of(launch)); });
}

std::size_t workspace(const Case& c, const Options&, Direction direction) {
  if (direction == Direction::Forward) return 0;
  return static_cast<std::size_t>(kSlots * c.sizes["HV"] * (c.sizes["K"] + 1)) * sizeof(float);
}

const Register kernel{KernelDef{
    .op = "kda_gate",
    .name = "kda_gate.rows",
    .what = "f32, log1p, parameter gradients in 16 slots of tokens",
    .contract = kF32Contract,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
    .faults = {{"F-38", "", "dt_bias gradient summed after the cast to bf16"},
               {"F-11", "", "A_log indexed by the query head"},
               {"P-no-threshold", "", "log(1 + exp z) without a threshold: inf above 88"}},
}};

}  // namespace
}  // namespace parity::unit_kernel
