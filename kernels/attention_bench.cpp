// Speed of attention.online, causal, two threads, T = 2048, H = 8, D = 128, as flops of the lower
// triangle. Its limits, LibTorch's eager softmax attention and its fused kernel, are in
// attention_torch_bench.cpp.
#include <benchmark/benchmark.h>
#include <string>

#include "kernels/attention/workload.hpp"

namespace parity::attention_kernel {
namespace {

constexpr int kThreads = 2;
constexpr const char* kSizes = "B1,T2048,H8,D128";

struct Speed {
  std::string name, limit, what;
  double target = 0;
  bool backward = false;
  Dtype dtype = Dtype::F32;
};

void measure(benchmark::State& state, const Speed& s) {
  Workload work(*registry().kernel("attention.online"), kSizes, s.dtype);
  if (s.backward) work.forward(kThreads);
  for (auto _ : state) s.backward ? work.backward(kThreads) : work.forward(kThreads);
  state.counters["flops"] = benchmark::Counter(work.forward_flops() * (s.backward ? 2.5 : 1),
                                               benchmark::Counter::kIsIterationInvariantRate);
  if (!s.limit.empty())
    state.SetLabel("limit=" + s.limit + ";what=" + s.what + ";target=" + std::to_string(s.target));
}

const bool registered = [] {
  const std::string eager = "LibTorch's eager softmax attention",
                    flash = "LibTorch's fused attention on the CPU";
  const Speed list[] = {
      {"attention/forward/f32", "attention/torch_math/f32", eager, 2},
      {"attention/forward_over_fused/f32", "attention/torch_flash/f32", flash, 0},
      {"attention/forward/bf16", "attention/torch_flash/bf16", flash, 0, false, Dtype::BF16},
      {"attention/backward/f32", "attention/torch_flash_backward/f32", flash, 0, true},
  };
  for (const Speed& s : list)
    benchmark::RegisterBenchmark(s.name.c_str(),
                                 [s](benchmark::State& state) { measure(state, s); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  return true;
}();

}  // namespace
}  // namespace parity::attention_kernel
