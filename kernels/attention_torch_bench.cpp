// What attention.online is measured against: LibTorch's eager softmax attention and its fused
// kernel, causal, on the same shapes with as many threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <cmath>
#include <limits>
#include <torch/csrc/autograd/autograd.h>

namespace parity::attention_kernel {
namespace {

constexpr int kThreads = 2;
constexpr std::int64_t kT = 2048, kH = 8, kD = 128;
constexpr double kFlops = 2.0 * kT * kT * kD * kH;  // the lower triangle of two products

struct Inputs {
  at::Tensor q, k, v;
  explicit Inputs(at::ScalarType dtype) {
    at::set_num_threads(kThreads);
    const auto draw = [&] { return at::randn({1, kH, kT, kD}).to(dtype); };
    q = draw(), k = draw(), v = draw();
  }
};

void set_flops(benchmark::State& state, double flops) {
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void math(benchmark::State& state, at::ScalarType dtype) {
  const Inputs x(dtype);
  for (auto _ : state)
    benchmark::DoNotOptimize(at::_scaled_dot_product_attention_math(x.q, x.k, x.v, {}, 0, true));
  set_flops(state, kFlops);
}

void flash(benchmark::State& state, at::ScalarType dtype) {
  const Inputs x(dtype);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        at::_scaled_dot_product_flash_attention_for_cpu(x.q, x.k, x.v, 0, true));
  set_flops(state, kFlops);
}

void flash_backward(benchmark::State& state) {
  const Inputs x(at::kFloat);
  const auto [o, lse] = at::_scaled_dot_product_flash_attention_for_cpu(x.q, x.k, x.v, 0, true);
  const at::Tensor d_o = at::randn_like(o);
  for (auto _ : state)
    benchmark::DoNotOptimize(at::_scaled_dot_product_flash_attention_for_cpu_backward(
        d_o, x.q, x.k, x.v, o, lse, 0, true));
  set_flops(state, 2.5 * kFlops);
}

const bool registered = [] {
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.3);
  };
  add("attention/torch_math/f32", [](benchmark::State& s) { math(s, at::kFloat); });
  add("attention/torch_flash/f32", [](benchmark::State& s) { flash(s, at::kFloat); });
  add("attention/torch_flash/bf16", [](benchmark::State& s) { flash(s, at::kBFloat16); });
  add("attention/torch_flash_backward/f32", [](benchmark::State& s) { flash_backward(s); });
  return true;
}();

}  // namespace
}  // namespace parity::attention_kernel
