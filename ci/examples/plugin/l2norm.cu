// A plug-in in CUDA: a warp a row, f32. Tensors lie on the GPU, the stream is that of the launch.
//
//   nvcc -O2 -shared -Xcompiler -fPIC -arch=sm_90 -I harness/plugin -o l2norm.so l2norm.cu
//   parity run --plugin ./l2norm.so
#include <cstdlib>

#include "parity_plugin.h"

namespace {

__global__ void rows(const float* x_ND, float* y_ND, long long N, long long D, float eps) {
  const long long n = blockIdx.x * (blockDim.x / 32LL) + threadIdx.x / 32;
  if (n >= N) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  float sum = 0;
  for (long long d = lane; d < D; d += 32) sum += x_ND[n * D + d] * x_ND[n * D + d];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  const float r = 1 / sqrtf(sum + eps);
  for (long long d = lane; d < D; d += 32) y_ND[n * D + d] = x_ND[n * D + d] * r;
}

const char* forward(const parity_launch* l) {
  const long long N = parity_extent(l->problem, "N", 0), D = parity_extent(l->problem, "D", 0);
  const auto eps = static_cast<float>(std::atof(parity_option_or(l->problem, "eps", "1e-6")));
  constexpr unsigned kRows = 4;  // of a block
  rows<<<static_cast<unsigned>((N + kRows - 1) / kRows), 32 * kRows, 0,
         static_cast<cudaStream_t>(l->stream)>>>(static_cast<const float*>(parity_in(l, "x")),
                                                 static_cast<float*>(parity_out(l, "y")), N, D,
                                                 eps);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

const char* const kDtypes[] = {"f32", nullptr};

}  // namespace

extern "C" const parity_plugin* parity_plugin_kernels(void) {
  static parity_kernel kernel = {};
  kernel.op = "l2norm";
  kernel.name = "l2norm.plugin_cuda";
  kernel.what = "a warp a row";
  kernel.needs = "sm_80+";
  kernel.dtypes = kDtypes;
  kernel.forward = forward;
  static const parity_plugin plugin = {PARITY_PLUGIN_VERSION, sizeof(parity_kernel),
                                       "example in CUDA", &kernel, 1};
  return &plugin;
}
