// Speed of the KDA kernels in f32 and bf16, two threads, B = 1, T = 4096, H = 8, K = V = 128, as
// dense flops of the chunk form. Their limits, LibTorch's products and eager forms, are in
// kda_torch_bench.cpp.
#include <benchmark/benchmark.h>
#include <memory>
#include <string>

#include "kernels/kda/workload.hpp"

namespace parity::kda_kernel {
namespace {

constexpr const char* kSizes = "B1,T4096,H8,K128,V128";
constexpr int kThreads = 2;

struct Speed {
  std::string what = {};    // "forward", "backward"
  std::string kernel = {};  // "kda.chunked_f32"
  std::string name = {};    // the case part of the benchmark's name
  std::string limit = {}, limit_what = {};
  double target = 0;
  int chunk = 32;
  Dtype dtype = Dtype::F32;
};

void measure(benchmark::State& state, const Speed& s) {
  const std::string options =
      s.kernel.find("chunked") == std::string::npos ? "" : "chunk=" + std::to_string(s.chunk);
  Workload work(*registry().kernel(s.kernel), kSizes, s.dtype, options);
  const bool backward = s.what.starts_with("backward");
  if (backward) work.forward(kThreads, true);
  for (auto _ : state) backward ? work.backward(kThreads) : work.forward(kThreads, false);
  // Forms are compared by the flops of one chunk size, so that their ratio is that of their times.
  const double flops = backward ? work.backward_flops(s.chunk) : work.forward_flops(s.chunk);
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  if (!s.limit.empty())
    state.SetLabel("limit=" + s.limit + ";what=" + s.limit_what +
                   ";target=" + std::to_string(s.target));
}

const bool registered = [] {
  const std::string product = "LibTorch's batched f32 product of chunks",
                    eager = "LibTorch's eager chunk form", loop = "LibTorch's eager token loop";
  const Speed list[] = {
      {"forward", "kda.chunked_f32", "f32,chunk=32", "kda/bmm/32x128x128", product, 0.5},
      {"backward", "kda.chunked_f32", "f32,chunk=32", "kda/bmm/32x128x128", product, 0.4},
      {"forward", "kda.chunked_f32", "f32,chunk=64", "kda/bmm/64x128x128", product, 0.5, 64},
      {"backward", "kda.chunked_f32", "f32,chunk=64", "kda/bmm/64x128x128", product, 0.4, 64},
      {"forward", "kda.chunked_f32", "f32,chunk=16", "kda/bmm/16x128x128", product, 0.5, 16},
      {"backward", "kda.chunked_f32", "f32,chunk=16", "kda/bmm/16x128x128", product, 0.4, 16},
      {"forward_over_eager", "kda.chunked_f32", "f32,chunk=32", "kda/torch_forward/chunk=32", eager,
       1.5},
      {"backward_over_eager", "kda.chunked_f32", "f32,chunk=32", "kda/torch_backward/chunk=32",
       eager, 1.5},
      {"forward_over_eager", "kda.chunked_f32", "f32,chunk=64", "kda/torch_forward/chunk=64", eager,
       1.5, 64},
      {"forward_over_loop", "kda.chunked_f32", "f32,chunk=32", "kda/torch_forward/loop", loop, 10},
      {"forward", "kda.chunked_bf16", "bf16,chunk=32", "kda/bmm/32x128x128", product, 0, 32,
       Dtype::BF16},
      {"backward", "kda.chunked_bf16", "bf16,chunk=32", "kda/bmm/32x128x128", product, 0, 32,
       Dtype::BF16},
      {"forward", "kda.recurrent_f32", "f32,recurrent", "kda/torch_forward/loop", loop, 0},
  };
  for (const Speed& s : list)
    benchmark::RegisterBenchmark(("kda/" + s.what + "/" + s.name).c_str(),
                                 [s](benchmark::State& state) { measure(state, s); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  return true;
}();

}  // namespace
}  // namespace parity::kda_kernel
