// l2norm.rows: one row after another, f32 sums in eight lanes, slots of rows to threads.
// The backward recomputes y in f32; nothing is saved. Any D.
#include "kernels/unit/rows.hpp"

namespace parity::unit_kernel {
namespace {

struct Rows {
  std::int64_t N = 0, D = 0;
  float eps = 0;
  std::string_view fault = {};
};

Rows rows_of(const Launch& launch) {
  const Case& c = launch.problem;
  return {c.sizes["N"], c.sizes["D"], static_cast<float>(c.options.real("eps", 1e-6)),
          launch.fault};
}

template <class T>
float reciprocal_length(const Rows& r, const T* x_D) {
  const std::int64_t counted = r.fault == "P-tail" ? r.D - r.D % 8 : r.D;
  const float sum =
      lane_sum(counted, [&](std::int64_t d) { return widen(x_D[d]) * widen(x_D[d]); });
  if (r.fault == "A-NR04") return 1 / (std::sqrt(sum) + r.eps);
  return 1 / std::sqrt(sum + r.eps);
}

template <class Work>
void for_rows(const Launch& launch, const Rows& r, const Work& work) {
  for_slots(launch.threads, kSlots, [&](std::int64_t slot) {
    for (std::int64_t n = slot_edge(slot, kSlots, r.N); n < slot_edge(slot + 1, kSlots, r.N); ++n)
      work(n);
  });
}

void forward(const Launch& launch) {
  const Rows r = rows_of(launch);
  with_storage(launch.problem.dtype, [&]<class T>(T) {
    const T* x_ND = launch.in<T>("x");
    T* y_ND = launch.out<T>("y");
    for_rows(launch, r, [&](std::int64_t n) {
      const float rl = reciprocal_length(r, x_ND + n * r.D);
      for (std::int64_t i = n * r.D; i < (n + 1) * r.D; ++i) narrow(widen(x_ND[i]) * rl, y_ND[i]);
    });
  });
}

void backward(const Launch& launch) {
  const Rows r = rows_of(launch);
  with_storage(launch.problem.dtype, [&]<class T>(T) {
    const T* x_ND = launch.in<T>("x");
    const T* dy_ND = launch.in<T>("cotangents/y");
    T* dx_ND = launch.out<T>("grads/x");
    for_rows(launch, r, [&](std::int64_t n) {
      const T* x_D = x_ND + n * r.D;
      const T* dy_D = dy_ND + n * r.D;
      const float rl = reciprocal_length(r, x_D);
      const float dot =
          lane_sum(r.D, [&](std::int64_t d) { return widen(x_D[d]) * rl * widen(dy_D[d]); });
      for (std::int64_t d = 0; d < r.D; ++d) {
        const float y = widen(x_D[d]) * rl;
        const float along = r.fault == "P-l2-dot" ? 0 : y * dot;
        narrow(rl * (widen(dy_D[d]) - along), dx_ND[n * r.D + d]);
      }
    });
  });
}

const Register kernel{KernelDef{
    .op = "l2norm",
    .name = "l2norm.rows",
    .what = "f32 sums in eight lanes, y recomputed in the backward, any D",
    .contract = kF32Contract,
    .forward = forward,
    .backward = backward,
    .faults = {{"A-NR04", "F-24", "eps outside the root"},
               {"P-tail", "", "elements past the last full vector are not summed"},
               {"P-l2-dot", "", "gradient without its projection on y"}},
}};

}  // namespace
}  // namespace parity::unit_kernel
