// What the KDA kernels are measured against: LibTorch's batched f32 product at the shapes of a
// chunk, and the eager forms of torch_kda.cpp, with as many threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>
#include <string>

#include "kernels/kda/workload.hpp"

namespace parity::kda_kernel {
namespace {

constexpr const char* kSizes = "B1,T4096,H8,K128,V128";
constexpr int kThreads = 2;

void set_flops(benchmark::State& state, double flops) {
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// rows x 128 times 128 x 128, as many as a batch of T = 4096, H = 8 has chunks of that many rows.
void product(benchmark::State& state, std::int64_t rows) {
  at::NoGradGuard no_grad;
  at::set_num_threads(kThreads);
  const std::int64_t batch = 4096 / rows * 8;
  const at::Tensor a = at::randn({batch, rows, 128}), b = at::randn({batch, 128, 128});
  at::Tensor out = at::empty({batch, rows, 128});
  for (auto _ : state) at::bmm_out(out, a, b);
  set_flops(state, 2.0 * static_cast<double>(batch * rows) * 128 * 128);
}

void eager(benchmark::State& state, const char* kernel, const char* options, bool backward) {
  Workload work(*registry().kernel(kernel), kSizes, Dtype::F32, options);
  for (auto _ : state) backward ? work.backward(kThreads) : work.forward(kThreads, false);
  set_flops(state, backward ? work.backward_flops(64) : work.forward_flops(64));
}

const bool registered = [] {
  const auto add = [](const char* name, auto run, double seconds) {
    benchmark::RegisterBenchmark(name, run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(seconds);
  };
  add(
      "kda/bmm/64x128x128", [](benchmark::State& s) { product(s, 64); }, 0.3);
  add(
      "kda/bmm/32x128x128", [](benchmark::State& s) { product(s, 32); }, 0.3);
  constexpr const char* kFast = "chunk=64,diagonal=anchored";
  add(
      "kda/torch_forward/chunk=64",
      [](benchmark::State& s) { eager(s, "kda.torch_chunk_f32", kFast, false); }, 0.3);
  // Of forward and backward: autograd needs its own forward.
  add(
      "kda/torch_backward/chunk=64",
      [](benchmark::State& s) { eager(s, "kda.torch_chunk_f32", kFast, true); }, 0.3);
  add(
      "kda/torch_forward/loop",
      [](benchmark::State& s) { eager(s, "kda.torch_loop_f32", "", false); }, 0.1);
  return true;
}();

}  // namespace
}  // namespace parity::kda_kernel
