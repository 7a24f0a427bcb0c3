// l2norm.cuda: one warp a row, any D. f32 sums: each lane adds every 32nd term, then pairs of
// lanes. The backward recomputes y in f32; nothing is saved.
#include "kernels/device/launch.cuh"
#include "kernels/device/storage.cuh"

namespace parity::device {
namespace {

constexpr int kWarps = 4;  // rows of a thread block
constexpr int kLanes = 32;

struct Rows {
  std::int64_t N = 0, D = 0;
  float eps = 0;
  bool eps_outside = false, drops_tail = false, drops_projection = false;  // faults
};

__device__ float warp_sum(float mine) {
  for (int apart = kLanes / 2; apart > 0; apart /= 2)
    mine += __shfl_xor_sync(0xFFFFFFFFU, mine, apart);
  return mine;
}

template <class T>
__device__ float reciprocal_length(const Rows& r, const T* x_D) {
  const std::int64_t counted = r.drops_tail ? r.D / kLanes * kLanes : r.D;
  float sum = 0;
  for (std::int64_t d = threadIdx.x; d < counted; d += kLanes) sum += widen(x_D[d]) * widen(x_D[d]);
  sum = warp_sum(sum);
  return r.eps_outside ? 1 / (sqrtf(sum) + r.eps) : 1 / sqrtf(sum + r.eps);
}

template <class T>
__global__ void l2norm_rows(Rows r, const T* x_ND, T* y_ND) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  if (n >= r.N) return;
  const float rl = reciprocal_length(r, x_ND + n * r.D);
  for (std::int64_t d = threadIdx.x; d < r.D; d += kLanes)
    narrow(widen(x_ND[n * r.D + d]) * rl, y_ND[n * r.D + d]);
}

template <class T>
__global__ void l2norm_gradients(Rows r, const T* x_ND, const T* dy_ND, T* dx_ND) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  if (n >= r.N) return;
  const T* x_D = x_ND + n * r.D;
  const T* dy_D = dy_ND + n * r.D;
  const float rl = reciprocal_length(r, x_D);
  float dot = 0;
  for (std::int64_t d = threadIdx.x; d < r.D; d += kLanes)
    dot += widen(x_D[d]) * rl * widen(dy_D[d]);
  dot = r.drops_projection ? 0 : warp_sum(dot);
  for (std::int64_t d = threadIdx.x; d < r.D; d += kLanes)
    narrow(rl * (widen(dy_D[d]) - widen(x_D[d]) * rl * dot), dx_ND[n * r.D + d]);
}

Rows rows_of(const Launch& l) {
  const Case& c = l.problem;
  return {.N = c.sizes["N"],
          .D = c.sizes["D"],
          .eps = static_cast<float>(c.options.real("eps", 1e-6)),
          .eps_outside = l.fault == "A-NR04",
          .drops_tail = l.fault == "P-tail",
          .drops_projection = l.fault == "P-l2-dot"};
}

Grid grid_of(const Rows& r) {
  return {static_cast<unsigned int>((r.N + kWarps - 1) / kWarps), dim3(kLanes, kWarps)};
}

void forward(const Launch& l) {
  const Rows r = rows_of(l);
  with_storage(l.problem.dtype, [&]<class T>(T) {
    launch(l, grid_of(r), l2norm_rows<T>, r, l.in<T>("x"), l.out<T>("y"));
  });
}

void backward(const Launch& l) {
  const Rows r = rows_of(l);
  with_storage(l.problem.dtype, [&]<class T>(T) {
    launch(l, grid_of(r), l2norm_gradients<T>, r, l.in<T>("x"), l.in<T>("cotangents/y"),
           l.out<T>("grads/x"));
  });
}

const Register kernel{KernelDef{
    .op = "l2norm",
    .name = "l2norm.cuda",
    .what = "one warp a row, f32 sums over lanes, y recomputed in the backward, any D",
    .needs = "sm_90+",
    .contract = {.name = "f32", .dtypes = {Dtype::F32, Dtype::BF16}, .accumulate = Dtype::F32},
    .forward = forward,
    .backward = backward,
    .faults = {{"A-NR04", "F-24", "eps outside the root"},
               {"P-tail", "", "elements past the last full warp are not summed"},
               {"P-l2-dot", "", "gradient without its projection on y"}},
}};

}  // namespace
}  // namespace parity::device
