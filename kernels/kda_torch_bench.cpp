// What the KDA kernels are measured against: LibTorch's batched f32 product at the shapes of a
// chunk, and the eager forms of torch_kda.cpp, with as many threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>
#include <string>
#include <string_view>

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

// `chunk` also says in whose flops the rate is given: a token loop has none of its own.
void eager(benchmark::State& state, const char* kernel, int chunk, bool backward) {
  const bool loop = std::string_view(kernel).find("loop") != std::string_view::npos;
  const std::string options = loop ? "" : "diagonal=anchored,chunk=" + std::to_string(chunk);
  Workload work(*registry().kernel(kernel), kSizes, Dtype::F32, options);
  for (auto _ : state) backward ? work.backward(kThreads) : work.forward(kThreads, false);
  set_flops(state, backward ? work.backward_flops(chunk) : work.forward_flops(chunk));
}

const bool registered = [] {
  const auto add = [](std::string name, auto run, double seconds) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(seconds);
  };
  for (const int rows : {16, 32, 64})
    add(
        "kda/bmm/" + std::to_string(rows) + "x128x128",
        [rows](benchmark::State& s) { product(s, rows); }, 0.3);
  for (const int chunk : {32, 64}) {
    const std::string name = "chunk=" + std::to_string(chunk);
    add(
        "kda/torch_forward/" + name,
        [chunk](benchmark::State& s) { eager(s, "kda.torch_chunk_f32", chunk, false); }, 0.3);
    // Of forward and backward: autograd needs its own forward.
    add(
        "kda/torch_backward/" + name,
        [chunk](benchmark::State& s) { eager(s, "kda.torch_chunk_f32", chunk, true); }, 0.3);
  }
  add(
      "kda/torch_forward/loop",
      [](benchmark::State& s) { eager(s, "kda.torch_loop_f32", 32, false); }, 0.1);
  return true;
}();

}  // namespace
}  // namespace parity::kda_kernel
