// situ.rows: f32 throughout, element by element; rows in 16 slots.
#include "kernels/unit/rows.hpp"

namespace parity::unit_kernel {
namespace {

struct Situ {
  std::int64_t rows = 0, F = 0;
  float beta = 0, linear_beta = 0;
  std::string_view fault = {};
};

Situ situ_of(const Launch& launch) {
  const Case& c = launch.problem;
  return {c.sizes["T"], c.sizes["F"], static_cast<float>(c.options.real("beta", 4)),
          static_cast<float>(c.options.real("linear_beta", 25)), launch.fault};
}

// A limiter b tanh(x / b) and its slope; b = 0: none.
struct Limited {
  float value = 0, slope = 1;
};
Limited limited(float x, float b) {
  if (b == 0) return {x, 1};
  const float t = std::tanh(x / b);
  return {b * t, 1 - t * t};
}

template <class Work>
void for_rows(const Launch& launch, const Situ& p, const Work& work) {
  for_slots(launch.threads, kSlots, [&](std::int64_t slot) {
    for (std::int64_t r = slot_edge(slot, kSlots, p.rows); r < slot_edge(slot + 1, kSlots, p.rows);
         ++r)
      work(r);
  });
}

template <class T>
void forward_rows(const Launch& launch) {
  const Situ p = situ_of(launch);
  const T* gate_up = launch.in<T>("gate_up");
  T* y = launch.out<T>("y");
  for_rows(launch, p, [&](std::int64_t r) {
    const T *gate = gate_up + 2 * r * p.F, *up = gate + p.F;
    for (std::int64_t f = 0; f < p.F; ++f) {
      const float g = widen(gate[f]);
      const float a = p.fault == "P-situ-swiglu" ? g : limited(g, p.beta).value;
      narrow(a * sigmoid(g) * limited(widen(up[f]), p.linear_beta).value, y[r * p.F + f]);
    }
  });
}

template <class T>
void backward_rows(const Launch& launch) {
  const Situ p = situ_of(launch);
  const T *gate_up = launch.in<T>("gate_up"), *dy = launch.in<T>("cotangents/y");
  T* d_gate_up = launch.out<T>("grads/inputs/gate_up");
  for_rows(launch, p, [&](std::int64_t r) {
    const T *gate = gate_up + 2 * r * p.F, *up = gate + p.F;
    T *d_gate = d_gate_up + 2 * r * p.F, *d_up = d_gate + p.F;
    for (std::int64_t f = 0; f < p.F; ++f) {
      const float g = widen(gate[f]), d = widen(dy[r * p.F + f]), s = sigmoid(g);
      const Limited a = limited(g, p.beta), b = limited(widen(up[f]), p.linear_beta);
      const float slope = p.fault == "P-situ-slope" ? 0 : a.value * s * sigmoid(-g);
      narrow(d * (a.slope * s + slope) * b.value, d_gate[f]);
      narrow(d * a.value * s * b.slope, d_up[f]);
    }
  });
}

void forward(const Launch& launch) {
  with_storage(launch.problem.dtype, [&]<class T>(T) { forward_rows<T>(launch); });
}
void backward(const Launch& launch) {
  with_storage(launch.problem.dtype, [&]<class T>(T) { backward_rows<T>(launch); });
}

const Register kernel{KernelDef{
    .op = "situ",
    .name = "situ.rows",
    .what = "f32, element by element",
    .contract = kF32Contract,
    .forward = forward,
    .backward = backward,
    .faults = {{"P-situ-swiglu", "", "SwiGLU: the gate is not limited"},
               {"P-situ-slope", "", "the sigmoid's own slope is left out of the gate's gradient"}},
}};

}  // namespace
}  // namespace parity::unit_kernel
