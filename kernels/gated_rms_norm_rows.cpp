// gated_rms_norm.rows: f32 throughout, one rounding at the end. The weight gradient is summed in 16
// slots of rows, whose partial sums are then added in order: the same bits for any number of
// threads. Workspace of the backward: 16 V floats.
#include "kernels/unit/rows.hpp"

namespace parity::unit_kernel {
namespace {

struct Rows {
  std::int64_t R = 0, V = 0;
  float eps = 0;
  std::string_view fault = {};
};

Rows rows_of(const Launch& launch) {
  const Case& c = launch.problem;
  return {c.sizes.get("B", 1) * c.sizes["T"] * c.sizes.get("HV", 1), c.sizes["V"],
          static_cast<float>(c.options.real("eps", 1e-5)), launch.fault};
}

template <class T>
float reciprocal_rms(const Rows& r, const T* x_V) {
  const float sum = lane_sum(r.V, [&](std::int64_t v) { return widen(x_V[v]) * widen(x_V[v]); });
  const auto n = static_cast<float>(r.V);
  if (r.fault == "A-NR04") return 1 / (std::sqrt(sum / n) + r.eps);
  return 1 / std::sqrt(sum / n + r.eps);
}

template <class T>
void forward_rows(const Launch& launch, const Rows& r) {
  const T* x = launch.in<T>("x");
  const T* gate = launch.in<T>("gate");
  const float* weight_V = launch.in<float>("weight");
  T* y = launch.out<T>("y");
  for_slots(launch.threads, kSlots, [&](std::int64_t slot) {
    for (std::int64_t row = slot_edge(slot, kSlots, r.R); row < slot_edge(slot + 1, kSlots, r.R);
         ++row) {
      const float rstd = reciprocal_rms(r, x + row * r.V);
      for (std::int64_t v = 0; v < r.V; ++v) {
        const std::int64_t i = row * r.V + v;
        narrow(widen(x[i]) * rstd * weight_V[v] * sigmoid(widen(gate[i])), y[i]);
      }
    }
  });
}

template <class T>
void backward_rows(const Launch& launch, const Rows& r) {
  const T* x = launch.in<T>("x");
  const T* gate = launch.in<T>("gate");
  const T* dy = launch.in<T>("cotangents/y");
  const float* weight_V = launch.in<float>("weight");
  T* dx = launch.out<T>("grads/x");
  T* dgate = launch.out<T>("grads/gate");
  T* again = launch.out<T>("recomputed/y");
  auto* part_SV = reinterpret_cast<float*>(launch.workspace.data());
  for_slots(launch.threads, kSlots, [&](std::int64_t slot) {
    const std::int64_t begin = slot_edge(slot, kSlots, r.R);
    const std::int64_t end = slot_edge(slot + 1, kSlots, r.R);
    if (r.fault == "A-NR07" && begin == end) return;
    float* part_V = part_SV + slot * r.V;
    std::fill(part_V, part_V + r.V, 0.0F);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = row * r.V;
      const float rstd = reciprocal_rms(r, x + first);
      const auto n = [&](std::int64_t v) {
        return widen(dy[first + v]) * weight_V[v] * sigmoid(widen(gate[first + v]));
      };
      const float mean =
          lane_sum(r.V, [&](std::int64_t v) { return n(v) * (widen(x[first + v]) * rstd); }) /
          static_cast<float>(r.V);
      for (std::int64_t v = 0; v < r.V; ++v) {
        const std::int64_t i = first + v;
        const float s = sigmoid(widen(gate[i]));
        const float h = widen(x[i]) * rstd;
        narrow(rstd * (n(v) - h * mean), dx[i]);
        narrow(widen(dy[i]) * h * weight_V[v] * s * (1 - s), dgate[i]);
        if (again != nullptr)
          narrow(r.fault == "A-NR01" ? h * weight_V[v] : h * weight_V[v] * s, again[i]);
        part_V[v] += widen(dy[i]) * s * h;
        if (r.fault == "A-NR03") part_V[v] = float_from_bf16(bf16_from_float(part_V[v]));
      }
    }
  });
  float* dweight_V = launch.out<float>("grads/weight");
  for (std::int64_t v = 0; v < r.V; ++v) {
    float sum = 0;
    for (std::int64_t slot = 0; slot < kSlots; ++slot) sum += part_SV[slot * r.V + v];
    dweight_V[v] = sum;
  }
}

void forward(const Launch& launch) {
  with_storage(launch.problem.dtype, [&]<class T>(T) { forward_rows<T>(launch, rows_of(launch)); });
}

void backward(const Launch& launch) {
  with_storage(launch.problem.dtype,
               [&]<class T>(T) { backward_rows<T>(launch, rows_of(launch)); });
}

std::size_t workspace(const Case& c, const Options&, Direction direction) {
  if (direction == Direction::Forward) return 0;
  return static_cast<std::size_t>(kSlots * c.sizes["V"]) * sizeof(float);
}

const Register kernel{KernelDef{
    .op = "gated_rms_norm",
    .name = "gated_rms_norm.rows",
    .what = "f32, weight gradient in 16 slots of rows, any V",
    .contract = kF32Contract,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-NR01", "F-25", "the backward returns the recomputed output before its gate"},
               {"A-NR03", "", "weight gradient summed over rows in bf16"},
               {"A-NR04", "F-24", "eps outside the root"},
               {"A-NR07", "", "slots without rows leave their partial sums unwritten"}},
}};

}  // namespace
}  // namespace parity::unit_kernel
